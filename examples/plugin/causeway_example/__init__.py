"""What this example adds to Causeway; pyproject.toml names each part as an entry point."""
