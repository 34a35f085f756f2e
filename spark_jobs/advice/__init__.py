"""What to take, and the report that says why."""
