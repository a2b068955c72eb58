"""What stands under the name of a secret and is none: what describes it, and words on what is wrong with it."""

import re
from typing import Any, Final, cast

GIVEN: Final = frozenset({"default", "const", "enum", "example", "examples"})
"""Of the words of a schema, those under which values stand."""
_SCHEMA: Final = GIVEN | {
    *("type", "format", "title", "description", "pattern", "minLength", "maxLength", "nullable", "deprecated"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "readOnly", "writeOnly"),
    *("items", "minItems", "maxItems", "uniqueItems", "properties", "required", "additionalProperties"),
    *("minProperties", "maxProperties", "contentEncoding", "contentMediaType", "$ref", "anyOf", "oneOf", "allOf"),
}
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_SEVERAL: Final = ("anyOf", "oneOf", "allOf")
_WORD: Final = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")
_NUMBER: Final = re.compile(r"[0-9]{1,3}(?:-[a-z]+)?")
_WORDS_MIN: Final = 2


def describes(value: Any) -> bool:
    """Whether an object says what may stand in its place, in the words of JSON Schema and no others."""
    if not isinstance(value, dict):
        return False
    members = cast("dict[str, Any]", value)
    if not members or not _SCHEMA.issuperset(members):
        return False
    kind = members.get("type")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    if all(isinstance(one, str) and one in _TYPES for one in kinds):
        return True
    return isinstance(members.get("$ref"), str) or any(isinstance(members.get(word), list) for word in _SEVERAL)


def tells_errors(name: str) -> bool:
    """Whether a member of this name has words on the members of something else, under their names."""
    return name.lower().endswith(("error", "errors"))


def complains(value: Any) -> bool:
    """Whether a value is a list of sentences, of plain words and small numbers."""
    return isinstance(value, list) and all(map(_is_sentence, cast("list[Any]", value)))


def _is_sentence(item: Any) -> bool:
    if not isinstance(item, str):
        return False
    words = [word.strip(".,;:!?()") for word in item.split()]
    plain = [word for word in words if _WORD.fullmatch(word)]
    return len(plain) >= _WORDS_MIN and all(_WORD.fullmatch(word) or _NUMBER.fullmatch(word) for word in words if word)
