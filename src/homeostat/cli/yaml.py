"""JSON as YAML, for people who would rather read it so; text that YAML could take for anything else is quoted."""

import json
import re
from typing import Any, Final, cast

_BARE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_MEANT_OTHERWISE: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def dump(value: object) -> str:
    """The whole document."""
    return "\n".join(_lines(value))


def _lines(value: object) -> list[str]:
    if isinstance(value, dict) and value:
        lines: list[str] = []
        for name, member in cast("dict[str, Any]", value).items():
            lines += _member(f"{_scalar(name)}:", member)
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in cast("list[Any]", value):
            nested = _lines(item)
            lines += [f"- {nested[0]}", *(f"  {line}" for line in nested[1:])]
        return lines
    return [_scalar(cast("object", value))]


def _member(title: str, value: object) -> list[str]:
    if isinstance(value, dict | list) and value:
        indent = "  " if isinstance(value, dict) else ""
        return [title, *(f"{indent}{line}" for line in _lines(cast("object", value)))]
    return [f"{title} {_scalar(cast('object', value))}"]


def _scalar(value: object) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and value.lower() not in _MEANT_OTHERWISE:
        return value
    return json.dumps(value, ensure_ascii=False)
