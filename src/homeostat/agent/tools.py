"""Tools: plain functions that models may call, described by their type hints, and the service that makes the calls."""

import asyncio
import inspect
import logging
import typing
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, cast, overload

import msgspec

from homeostat.agent.errors import as_json
from homeostat.agent.invocation import Invoker
from homeostat.agent.outcome import describe
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import HomeostatError, InvalidRequest, Unavailable
from homeostat.core.limits import CLAIM_SECONDS, DEFERRAL_SECONDS, TOOL_CONCURRENCY
from homeostat.core.ports.tools import ToolDesk
from homeostat.core.records.tool import CallKey, OpenCall, ToolSpec
from homeostat.core.records.turn import WaitStatus

log = logging.getLogger(__name__)

TURN_PARAMETER = "turn"
CALL_PARAMETER = "call"
INJECTED = frozenset({TURN_PARAMETER, CALL_PARAMETER})
"""Parameters a model knows nothing of: the turn (inside a worker) and the call (inside a tool service)."""


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A function with a name, a description and a schema. It can still be called as the function it is."""

    name: str
    description: str
    parameters: dict[str, Any]
    function: Callable[..., Any] | None = None
    shape: type[msgspec.Struct] | None = None
    injected: frozenset[str] = field(default_factory=frozenset[str])
    timeout_seconds: float | None = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        assert self.function is not None, f"{self.name} runs elsewhere"
        return self.function(*args, **named)

    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, to_json(self.parameters))

    def offer(self) -> dict[str, Any]:
        """How the tool is offered to a model."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }

    def take(self, arguments: Any, **extras: Any) -> dict[str, Any]:
        """Arguments as the function takes them; raises `InvalidRequest` in words that a model can act on."""
        assert self.shape is not None
        try:
            taken = msgspec.convert(arguments, self.shape, strict=False)
        except msgspec.ValidationError as problem:
            raise InvalidRequest(problem=f"the arguments of {self.name} do not fit: {problem}") from problem
        named = {name: getattr(taken, name) for name in taken.__struct_fields__}
        return named | {name: value for name, value in extras.items() if name in self.injected}


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, timeout_seconds: float | None = None
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_seconds: float | None = None,
) -> Any:
    """Make a function a tool: its hints become the schema, the first paragraph of its docstring the description."""

    def make(written: Callable[..., Any]) -> Tool:
        called = name or getattr(written, "__name__", "tool")
        shape, injected = _shape(called, written)
        return Tool(
            name=called,
            description=description or (inspect.getdoc(written) or "").split("\n\n")[0].replace("\n", " "),
            parameters=_schema(called, shape),
            function=written,
            shape=shape,
            injected=injected,
            timeout_seconds=timeout_seconds,
        )

    return make if function is None else make(function)


def remote_tool(
    name: str,
    description: str = "",
    parameters: dict[str, Any] | None = None,
    *,
    timeout_seconds: float | None = None,
) -> Tool:
    """A tool that a service elsewhere runs; a turn that calls it is suspended until the result is in."""
    schema = parameters or {"type": "object", "properties": {}}
    return Tool(name=name, description=description, parameters=schema, timeout_seconds=timeout_seconds)


def tool_of(spec: ToolSpec) -> Tool:
    """A tool that somebody registered."""
    return remote_tool(spec.name, spec.description, from_json(spec.parameters))


def _shape(name: str, function: Callable[..., Any]) -> tuple[type[msgspec.Struct], frozenset[str]]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    injected: set[str] = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidRequest(problem=f"tool {name}: a model names its arguments, so {parameter} is not possible")
        if parameter.name in INJECTED:
            injected.add(parameter.name)
            continue
        kind = hints.get(parameter.name, Any)
        default = parameter.default
        fields.append((parameter.name, kind) if default is parameter.empty else (parameter.name, kind, default))
    try:
        shape = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.schema(shape)
    except (TypeError, ValueError) as problem:
        raise InvalidRequest(
            problem=f"tool {name}: {str(problem).splitlines()[-1]}; hint its parameters with types that JSON can hold"
        ) from problem
    return shape, frozenset(injected)


def _schema(name: str, shape: type[msgspec.Struct]) -> dict[str, Any]:
    (_,), components = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    schema = cast("dict[str, Any]", components.pop(shape.__name__))
    schema.pop("title", None)
    assert schema.get("type") == "object", name
    return schema | {"$defs": components} if components else schema


class ToolService:
    """Makes calls of its tools as they come in, and brings the results home."""

    def __init__(
        self,
        desk: ToolDesk,
        tools: Iterable[Tool | Callable[..., Any]],
        *,
        concurrency: int = TOOL_CONCURRENCY,
        clock: Clock | None = None,
    ) -> None:
        made = [one if isinstance(one, Tool) else tool(one) for one in tools]
        self.tools = {one.name: one for one in made}
        self._desk = desk
        self._concurrency = concurrency
        self._clock = clock or SystemClock()
        self._invoker = Invoker()
        self._running: dict[CallKey, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._stopping = asyncio.Event()
        self._registered = False
        self.made = 0

    @property
    def running(self) -> Collection[CallKey]:
        return self._running.keys()

    def stop(self) -> None:
        """Take no more calls; `run` returns when those being made are done."""
        self._stopping.set()
        self._room.set()

    async def run(self) -> None:
        """Register the tools, then make calls until `stop()`. Where nobody answers, it is tried again."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while not self._stopping.is_set():
                await self._round(stopping)
        finally:
            stopping.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _round(self, stopping: "asyncio.Task[typing.Literal[True]]") -> None:
        room = self._concurrency - len(self._running)
        if room <= 0:
            self._room.clear()
            await self._room.wait()
            return
        looking = asyncio.create_task(self._look(room))
        await asyncio.wait([looking, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not looking.done():
            looking.cancel()
            return
        try:
            found = looking.result()
        except Unavailable as problem:
            log.warning("no calls can be had: %s", problem)
            self._registered = False  # whoever answers next may never have heard of the tools
            await asyncio.sleep(DEFERRAL_SECONDS)
            return
        for call in found:
            if call.key not in self._running:
                self._running[call.key] = asyncio.create_task(self._serve(call))

    async def _look(self, room: int) -> list[OpenCall]:
        if not self._registered:
            await self._desk.register([one.spec() for one in self.tools.values()])
            self._registered = True
        return await self._desk.calls(list(self.tools), limit=room, seconds=CLAIM_SECONDS, holding=list(self._running))

    async def _serve(self, call: OpenCall) -> None:
        try:
            made = await self._make(call)
            if made is None:
                return
            status, result = made
            while True:
                try:
                    await self._desk.report(call, status=status, result=result)
                    break
                except Unavailable as problem:
                    if self._clock.now_ms() >= call.deadline_ms:
                        log.warning("the result of %s came to nobody: %s", call.tool, problem)
                        break
                    await asyncio.sleep(DEFERRAL_SECONDS)
            self.made += 1
        except HomeostatError as problem:
            log.warning("%s of %s was not possible: %s", call.tool, call.turn_id, problem)
        finally:
            del self._running[call.key]
            self._room.set()

    async def _make(self, call: OpenCall) -> tuple[WaitStatus, Json] | None:
        """Run the function; whatever it raises is the call's answer. Past its deadline nobody waits for one."""
        wanted = self.tools[call.tool]
        bound = asyncio.timeout(max(0.0, (call.deadline_ms - self._clock.now_ms()) / 1000))
        try:
            named = wanted.take(from_json(await self._desk.args(call)), call=call)
            async with bound:
                value = await self._invoker.call(wanted.function or _nothing, **named)
            return WaitStatus.SUCCESS, as_json(value, what=f"what {call.tool} returned")
        except Unavailable:
            raise
        except Exception as problem:  # noqa: BLE001 - the caller is told
            if isinstance(problem, TimeoutError) and bound.expired():
                log.warning("%s did not end before its deadline", call.tool)
                return None
            return WaitStatus.ERROR, to_json(describe(problem))


def _nothing() -> None:
    return None
