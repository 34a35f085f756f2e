"""Traces: Parquet tables of what an observer received and, where known, of what the motes did."""
