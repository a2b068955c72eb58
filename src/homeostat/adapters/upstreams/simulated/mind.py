"""What the simulated model says: decided by a seed and the conversation, the same on every machine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from homeostat.adapters.upstreams.simulated import tokens
from homeostat.core.ids import chance

TOOLS_PER_TASK_MAX: Final = 3
ITEMS_MAX: Final = 8  # however many a schema asks for
CLOSING_TOOLS: Final = frozenset({"submit_result", "final_answer", "finish"})
"""Tools that end a conversation; they come last."""

_SUBJECTS = ("The ledger", "The forecast", "This report", "The second reading", "Our estimate", "The survey")
_VERBS = ("shows", "confirms", "suggests", "contradicts", "narrows down", "follows from", "accounts for")
_OBJECTS = (
    "a steady rise since March",
    "the figures you sent",
    "two open questions",
    "an error of about 3 percent",
    "the pattern seen in the north",
    "a delay in the last step",
    "what was agreed in the first meeting",
)
_ENDS = ("without exception", "as expected", "for the time being", "and needs no further work", "in both regions")


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a conversation, whichever API it came through."""

    role: str
    text: str = ""
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool the model may call."""

    name: str
    schema: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A model call as the mind sees it."""

    model: str
    messages: tuple[Said, ...]
    tools: tuple[ToolOffer, ...] = ()
    must_call: str | None = None  # a tool's name, "any", or None for the model's own choice
    may_call: bool = True
    parallel: bool = True
    max_tokens: int | None = None
    json_schema: dict[str, Any] | None = None
    overhead_text: str = ""

    @property
    def task(self) -> str:
        """What was last asked for by a user."""
        return next((said.text for said in reversed(self.messages) if said.role == "user"), "")

    @property
    def done(self) -> tuple[str, ...]:
        """The tools that were called since then."""
        since: list[str] = []
        for said in reversed(self.messages):
            if said.role == "user":
                break
            since += said.calls
        return tuple(since)

    def count_tokens(self) -> int:
        spoken = sum(tokens.PER_MESSAGE + tokens.count(said.text) for said in self.messages)
        return spoken + tokens.count(self.overhead_text) + tokens.PER_REPLY


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A tool call the model makes."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answers: text, tool calls, or both."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()
    truncated: bool = False

    def pieces(self) -> list[str]:
        return tokens.pieces(self.text)

    def count_tokens(self) -> int:
        called = sum(tokens.count(call.arguments) + tokens.count(call.name) + tokens.PER_MESSAGE for call in self.calls)
        return max(1, tokens.count(self.text) + called)


Script = Callable[[Prompt], Reply | None]
"""Puts words into the model's mouth; None leaves it to think for itself."""


class Mind:
    """Thinks up replies: calls each offered tool once or twice, then closes, or answers in a few sentences."""

    def __init__(self, *, seed: int = 0, script: Script | None = None) -> None:
        self._seed = seed
        self._script = script

    def reply(self, prompt: Prompt, *, choice: int = 0) -> Reply:
        scripted = self._script(prompt) if self._script is not None else None
        reply = scripted if scripted is not None else self._think(prompt, choice)
        return _truncate(reply, prompt.max_tokens)

    def _think(self, prompt: Prompt, choice: int) -> Reply:
        luck = chance(
            self._seed, prompt.model, *((said.role, said.text, said.calls) for said in prompt.messages), choice
        )
        wanted = self._wanted(prompt, luck.random() < 0.25)
        if wanted:
            return Reply(calls=tuple(_call(offer, prompt.task, luck) for offer in wanted))
        if prompt.json_schema is not None:
            value = sample(prompt.json_schema, prompt.task, luck, prompt.json_schema)
            return Reply(msgspec.json.encode(value).decode())
        sentences = [_sentence(luck) for _ in range(1 + min(6, int(luck.expovariate(0.6))))]
        return Reply(" ".join(sentences))

    def _wanted(self, prompt: Prompt, two_at_once: bool) -> list[ToolOffer]:  # noqa: FBT001
        """The tools to call now, or none."""
        if not prompt.tools or not prompt.may_call:
            return []
        by_name = {offer.name: offer for offer in prompt.tools}
        if prompt.must_call in by_name:
            return [by_name[prompt.must_call]]
        done = prompt.done
        closing = [offer for offer in prompt.tools if offer.name in CLOSING_TOOLS]
        fresh = [offer for offer in prompt.tools if offer.name not in done and offer not in closing]
        if fresh and len(done) < TOOLS_PER_TASK_MAX:
            return fresh[: 2 if two_at_once and prompt.parallel else 1]
        if closing and not any(name in CLOSING_TOOLS for name in done):
            return closing[:1]
        return [prompt.tools[0]] if prompt.must_call == "any" else []


def _call(offer: ToolOffer, task: str, luck: Any) -> ModelCall:
    arguments = sample(offer.schema, task, luck, offer.schema)
    return ModelCall(name_id(luck, 24), offer.name, msgspec.json.encode(arguments).decode())


def name_id(luck: Any, length: int) -> str:
    """Letters and digits, as ids have them."""
    return "".join(luck.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", k=length))


def _sentence(luck: Any) -> str:
    parts = [luck.choice(_SUBJECTS), luck.choice(_VERBS), luck.choice(_OBJECTS)]
    if luck.random() < 0.5:
        parts.append(luck.choice(_ENDS))
    return " ".join(parts) + "."


def _truncate(reply: Reply, limit: int | None) -> Reply:
    if limit is None or tokens.count(reply.text) <= limit:
        return reply
    return Reply("".join(reply.pieces()[:limit]), reply.calls, truncated=True)


def sample(schema: dict[str, Any], task: str, luck: Any, root: dict[str, Any], depth: int = 0) -> Any:
    """A value that a JSON Schema allows, made of the task's words where words are wanted."""
    schema = _resolve(schema, root)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return luck.choice(schema["enum"])
    for word in ("anyOf", "oneOf", "allOf"):
        if options := cast("list[dict[str, Any]]", schema.get(word) or []):
            return sample(options[0], task, luck, root, depth)
    kind = schema.get("type")
    kind = cast("list[str]", kind)[0] if isinstance(kind, list) else kind
    if kind == "object" or (kind is None and "properties" in schema) or (kind is None and depth == 0):
        return _object(schema, task, luck, root, depth)
    if kind == "array":
        count = min(ITEMS_MAX, max(1, int(schema.get("minItems", 1))))
        items = cast("dict[str, Any]", schema.get("items") or {"type": "string"})
        return [sample(items, task, luck, root, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", 1), schema.get("maximum", 100)
        return luck.randint(int(low), max(int(low), int(high)))
    if kind == "boolean":
        return luck.random() < 0.5
    if kind == "null":
        return None
    return _words(schema, task, luck)


def _object(schema: dict[str, Any], task: str, luck: Any, root: dict[str, Any], depth: int) -> dict[str, Any]:
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or ([] if depth else list(properties)))
    if depth > 8:
        return {}
    return {name: sample(properties.get(name, {}), task, luck, root, depth + 1) for name in required}


def _words(schema: dict[str, Any], task: str, luck: Any) -> str:
    text = task.strip()[:80] or _sentence(luck)
    limit = schema.get("maxLength")
    return text[: int(limit)] if isinstance(limit, int) else text


def _resolve(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    for _ in range(16):
        pointer = schema.get("$ref")
        if not isinstance(pointer, str) or not pointer.startswith("#/"):
            break
        found: Any = root
        for part in pointer[2:].split("/"):
            found = cast("dict[str, Any]", found).get(part, {}) if isinstance(found, dict) else {}
        schema = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return schema
