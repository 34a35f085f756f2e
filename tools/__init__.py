"""Tools for the project's upkeep: reports, tables for the documents, trials."""
