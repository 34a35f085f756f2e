"""Compares all schemes, the papers' and ours, on the same stream of events: their cost and their order."""
