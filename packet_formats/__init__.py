"""The wire formats, defined once: deployments, layouts, framing, messages, the C header and golden vectors.

Importing this package, or its modules `deployment`, `layout`, `records` and `cheader`, loads the standard
library alone: the firmware build runs them in a Python that has nothing else installed.
"""
