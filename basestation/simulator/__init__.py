"""The paper's simulation: every scheme stamps the same event stream, so that comparisons are paired."""
