"""What the project is looked after with: reports, tables for the documents, trials."""
