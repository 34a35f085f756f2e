"""The paper's figures 2 to 7 from our own runs, and its claims beside our numbers."""
