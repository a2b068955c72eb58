"""Numbers as people type them: what is none, or has no end, is refused before anything is asked of a server."""

import math
from typing import TypeVar

import typer

NumberT = TypeVar("NumberT", float, float | None)


def finite(value: NumberT) -> NumberT:
    """The callback of every option that takes a number with a fraction.

    JSON has no word for nan or inf: they would be sent as none at all, and a key that was to end would never do so.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number that can be counted to; write one, or leave the option out.")
    return value
