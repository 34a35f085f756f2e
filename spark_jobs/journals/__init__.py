"""Journals as rows, straight from the segment files. `rows` has the functions, `source` the data source of Spark."""
