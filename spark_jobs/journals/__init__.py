"""Journals as rows: raw records, frames and messages, straight from the segment files."""
