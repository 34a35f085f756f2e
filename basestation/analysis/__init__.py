"""Computations over logs and traces, as arrays, tables and plain data. No Spark, no engine, no files."""
