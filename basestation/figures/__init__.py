"""Makes the paper's figures 2 to 7 from our own runs, and checks its claims against our numbers."""
