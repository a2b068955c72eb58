"""What every shape of answer has in common: an exchange that fails says so the way its API does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from homeostat.adapters.upstreams.simulated.mind import Mind
from homeostat.core.clock import Clock


class BadRequest(Exception):
    """The request is not one the API would take."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: one body, or the events of a stream with the number of tokens that each one carries."""

    body: bytes = b""
    events: tuple[tuple[bytes, int], ...] = ()
    tokens: int = 0

    @property
    def streamed(self) -> bool:
        return bool(self.events)


@dataclass(frozen=True, slots=True)
class Desk:
    """What an answering function may use."""

    mind: Mind
    clock: Clock
    seed: int

    @property
    def created(self) -> int:
        return self.clock.now_ms() // 1000


Answerer = Callable[[Desk, dict[str, Any]], Answer]


def compact(value: object) -> bytes:
    return msgspec.json.encode(value)


def data_event(value: object) -> bytes:
    """An event as OpenAI's chat completions have it."""
    return b"data: " + compact(value) + b"\n\n"


def named_event(value: dict[str, Any]) -> bytes:
    """An event whose name is also in its data."""
    return b"event: " + str(value["type"]).encode() + b"\ndata: " + compact(value) + b"\n\n"


def text_of(content: object) -> str:
    """The words of a message, whether they came as one string or in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in cast("list[object]", content))
    if isinstance(content, dict):
        part = cast("dict[str, object]", content)
        return text_of(part.get("text") or part.get("content") or "")
    return ""


def mapping(value: object) -> dict[str, Any]:
    """An object, or an empty one where there is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def objects(value: object, what: str) -> list[dict[str, Any]]:
    """A list of objects, or a refusal that names the field."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in cast("list[object]", value)):
        raise BadRequest(f"Invalid type for '{what}': expected an array of objects.", param=what)
    return cast("list[dict[str, Any]]", value)


def whole_number(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadRequest(f"Invalid value for '{name}': expected a whole number of at least 1.", param=name)
    return value


def model_of(body: dict[str, Any]) -> str:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("you must provide a model parameter", param="model")
    return model
