"""`recommend`, `fit` and `changes`: which runs they read, and the networks that they simulate."""
