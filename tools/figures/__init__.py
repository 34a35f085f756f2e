"""The paper's figures 2 to 7 and its claims, and the tables and pictures of the documents about simulated schemes."""
