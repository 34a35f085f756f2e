"""Every scheme in a module of its own: its program, codec and rule behind one interface, looked up by name.

`packet_formats.schemes` says what each stamp holds; docs/evidence/schemes.md says what each costs and how well it
orders.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from .scheme import Scheme, Setting
from .timed import TimedScheme

__all__ = ["Scheme", "Setting", "TimedScheme", "make_scheme", "scheme_named", "timed_scheme"]

ENTRY_POINTS = "causeway.schemes"


@cache
def scheme_named(name: str) -> type[Scheme]:
    """The class of a scheme: ours in the module of its name, or one of an installed package."""
    place = f"{__name__}.{name.replace('-', '_')}"
    try:
        found = getattr(import_module(place), "SCHEME", None)
    except ModuleNotFoundError as error:
        if error.name != place:
            raise
        points = entry_points(group=ENTRY_POINTS, name=name)
        found = next(iter(points)).load() if points else None
    if found is None:
        raise ValueError(f"there is no scheme {name!r}")
    if not (isinstance(found, type) and issubclass(found, Scheme) and found.name == name):
        raise ValueError(f"the scheme {name!r} is not a Scheme of that name")
    return found


def make_scheme(name: str, setting: Setting) -> Scheme:
    """Make a scheme by its name, for one setting."""
    return scheme_named(name)(setting)


def timed_scheme(name: str, setting: Setting) -> TimedScheme:
    """The same for a scheme whose stamps compare; `TypeError` for any other."""
    scheme = make_scheme(name, setting)
    if not isinstance(scheme, TimedScheme):
        raise TypeError(f"stamps of {name} do not compare")
    return scheme
