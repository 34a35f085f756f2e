"""The log: a crash-safe journal of raw frames, Parquet parts made from it, and conversions."""
