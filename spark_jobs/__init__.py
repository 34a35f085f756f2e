"""Analysis of logged traces with Spark."""
