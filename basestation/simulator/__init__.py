"""The paper's simulation: one event stream, stamped by every scheme, so that comparisons are paired."""
