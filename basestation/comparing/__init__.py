"""Compares our schemes with those of other papers on the same stream of events."""
