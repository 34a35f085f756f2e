"""Plans a deployment before it is built: its delay budget, and the smallest stamp that is good enough."""
