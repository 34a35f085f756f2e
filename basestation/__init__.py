"""The base station: causal order, the simulator, planning and the command line."""

__version__ = "0.1.0"


def how_to_install(extra: str = "") -> str:
    """What brings in a package that is missing: one of an extra, or of the core. The project is on no index."""
    target = f".[{extra}]" if extra else "."
    return f"make setup, or pip install '{target}', in Causeway's folder"
