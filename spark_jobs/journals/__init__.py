"""Journals as rows, straight from the segment files: by functions (`journal_tables`) or by a data source (`source`)."""
