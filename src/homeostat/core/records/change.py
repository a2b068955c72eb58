"""A changed copy of a frozen record, at a third of what the standard library takes for it."""

from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")


def changed(record: T, **changes: Any) -> T:
    """Like `dataclasses.replace`, for the path every turn takes several times."""
    kind = type(record)
    places, read = _shape(kind)
    values = list(read(record))
    for name, value in changes.items():
        values[places[name]] = value
    return kind(*values)


@cache
def _shape(kind: type) -> "tuple[dict[str, int], attrgetter[tuple[Any, ...]]]":
    assert is_dataclass(kind), "only records have changed copies"
    names = [field.name for field in fields(kind)]
    return {name: place for place, name in enumerate(names)}, attrgetter(*names)
