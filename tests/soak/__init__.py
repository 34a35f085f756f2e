"""Long searches for faults: bounded, resumable, no tests. `make soak` runs them and writes
docs/evidence/reliability.md."""
