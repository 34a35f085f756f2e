"""Journals as rows, straight from the segment files: as functions (`journal_tables`), and as a data source (`source`)."""
