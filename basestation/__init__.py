"""The base station: causal order, the simulator, planning and the command line."""

__version__ = "0.1.0"
