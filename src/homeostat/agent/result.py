"""The fields that a result is asked for, and whether it has them."""

from collections.abc import Sequence
from typing import Any, cast

from homeostat.core.codec import Json, to_json
from homeostat.core.errors import ResultFieldsMissing


def check_fields(wanted: Sequence[dict[str, Any]], result: Any) -> None:
    """Raise `ResultFieldsMissing` if a required field is not there; `wanted` is a turn's `result_fields`."""
    required = [str(field["name"]) for field in wanted if field.get("required", True)]
    if not required:
        return
    present: set[str] = set()
    if isinstance(result, dict):
        present = {str(name) for name in cast("dict[Any, Any]", result)}
    elif isinstance(result, list):
        present = {
            str(cast("dict[str, Any]", row).get("name"))
            for row in cast("list[object]", result)
            if isinstance(row, dict)
        }
    if missing := [name for name in required if name not in present]:
        raise ResultFieldsMissing(missing=", ".join(missing))


def asked_fields(fields: Sequence[str | dict[str, Any]] | None) -> Json | None:
    """Fields as a turn is asked for them: a name stands for a field of that name."""
    if fields is None:
        return None
    return to_json([{"name": field} if isinstance(field, str) else field for field in fields])


def schema_of(wanted: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fields as a JSON Schema, so that a model can be asked for them."""
    properties: dict[str, Any] = {}
    for field in wanted:
        schema = {key: field[key] for key in ("type", "description", "enum") if field.get(key)}
        properties[str(field["name"])] = schema or {"type": "string"}
    required = [str(field["name"]) for field in wanted if field.get("required", True)]
    return {"type": "object", "properties": properties, "required": required}
