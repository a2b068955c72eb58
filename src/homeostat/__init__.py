"""Homeostat keeps a fleet of AI agents alive, bounded and healthy."""

from importlib import import_module
from typing import Final

__version__ = "0.1.0"

# Where each public name lives. A name is imported when it is first asked for, so that importing the
# package costs next to nothing and an agent's process never loads a server it does not run.
_HOMES: Final[dict[str, str]] = {}

__all__ = ["__version__", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
