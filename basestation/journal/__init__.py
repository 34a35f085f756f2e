"""The log: a journal of raw frames that survives anything, Parquet parts made from it, and conversions."""
