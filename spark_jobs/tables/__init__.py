"""The tables that `ingest` makes of journals, traces and testbed logs."""
