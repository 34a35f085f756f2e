"""Traces: what an observer received, and where it is known what the motes did, as Parquet tables."""
