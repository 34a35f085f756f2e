"""The base station: messages of a sensor network in causal order.

    import basestation

    for message in basestation.listen("serial@/dev/ttyUSB1", "site.toml"):
        print(message.name, message.values, message.held_ms)

`replay` gives the messages of a log in the same way. All else in this package is internal.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from basestation.reading import BasestationError, Message, listen, replay

__all__ = ["BasestationError", "Message", "listen", "replay"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the names of `__all__` at their first use: `import basestation` is quick."""
    if name in __all__:
        return getattr(import_module("basestation.reading"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def how_to_install(extra: str = "") -> str:
    """The command that installs a missing package: one of an extra, or of the core. The project is on no index."""
    target = f".[{extra}]" if extra else "."
    return f"make setup, or pip install '{target}', in Causeway's folder"
