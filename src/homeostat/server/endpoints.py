"""Endpoints as rows: method, path, what comes in, what goes out, and how it is explained."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from homeostat.core.codec import malformed
from homeostat.core.errors import HomeostatError, MalformedPayload
from homeostat.core.limits import BODY_BYTES_MAX
from homeostat.core.redaction import redact_text
from homeostat.core.wire.fields import Shape
from homeostat.server.answers import Answer
from homeostat.server.call import Call

TakesT = TypeVar("TakesT")

Errors = tuple[type[HomeostatError], ...]
Plain = Callable[[Call], Awaitable[Shape | Answer]]
Taking = Callable[[Call, TakesT], Awaitable[Shape | Answer]]

_encode = msgspec.json.Encoder().encode

IN_THE_QUERY: Final = frozenset({"GET", "DELETE"})
"""The methods that take what is said in the query."""

SAID_OF_ANY_ORDER: Final = frozenset({"project", "reason", "actor", "dry_run"})
"""What may stand in the query of any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One route. A GET or a DELETE takes its query, everything else its body."""

    method: str
    path: str
    run: Callable[[Call], Awaitable[Answer]]
    name: str
    summary: str
    description: str
    tag: str
    status: int
    takes: type[Any] | None
    gives: Any
    media_type: str
    errors: Errors
    examples: dict[str, Any] = field(default_factory=dict[str, Any])
    body_bytes_max: int = BODY_BYTES_MAX


class Routes:
    """The endpoints of one room."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._endpoints: list[Endpoint] = []

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def plain(
        self,
        method: str,
        path: str,
        *,
        gives: type[Shape] | None = None,
        status: int = 200,
        media_type: str = "application/json",
        errors: Errors = (),
    ) -> Callable[[Plain], Plain]:
        """A route that takes nothing but what its path says."""

        def add(handler: Plain) -> Plain:
            async def run(call: Call) -> Answer:
                if method == "DELETE":
                    await _take_nothing_else(call, frozenset())
                return _answer(await handler(call), status)

            self._add(
                handler,
                method=method,
                path=path,
                run=run,
                takes=None,
                gives=gives,
                status=status,
                media_type=media_type,
                errors=errors,
            )
            return handler

        return add

    def taking(
        self,
        method: str,
        path: str,
        takes: type[TakesT],
        *,
        gives: Any = None,
        status: int = 200,
        errors: Errors = (),
        examples: dict[str, Any] | None = None,
        body_bytes_max: int = BODY_BYTES_MAX,
        media_type: str = "application/json",
    ) -> Callable[[Taking[TakesT]], Taking[TakesT]]:
        """A route that takes a query or a body."""

        def add(handler: Taking[TakesT]) -> Taking[TakesT]:
            if method in IN_THE_QUERY:
                run = _querying(handler, takes, status, whole=method == "DELETE")
            else:
                run = _reading(handler, takes, status, body_bytes_max)
            self._add(
                handler,
                method=method,
                path=path,
                run=run,
                takes=takes,
                gives=gives,
                status=status,
                media_type=media_type,
                errors=errors,
                examples=examples or {},
                body_bytes_max=body_bytes_max,
            )
            return handler

        return add

    def _add(self, handler: Callable[..., Any], **row: Any) -> None:
        """Take the words from the handler's docstring: the first line, and what follows it."""
        summary, _, description = (handler.__doc__ or "").partition("\n")
        self._endpoints.append(
            Endpoint(
                name=handler.__name__,
                summary=summary.strip().rstrip("."),
                description=" ".join(description.split()),
                tag=self.tag,
                **row,
            )
        )


def _querying(
    handler: Taking[TakesT], takes: type[TakesT], status: int, *, whole: bool
) -> Callable[[Call], Awaitable[Answer]]:
    msgspec.json.Decoder(takes)  # a shape that cannot be read is found when the route is made, not when it is asked
    known: frozenset[str] = frozenset(getattr(takes, "__struct_fields__", ()))
    hear = _hearing(takes)

    async def run(call: Call) -> Answer:
        if whole:
            await _take_nothing_else(call, known)
        return _answer(await handler(call, hear(call.asked(takes))), status)

    return run


async def _take_nothing_else(call: Call, known: frozenset[str]) -> None:
    """Refuse an order to take something away of which a part would not be heard: it would take away more."""
    body = (await call.read()).strip()
    if body not in {b"", b"{}"}:
        problem = "a DELETE is not read beyond its query; say there what is meant, as in ?reason=…"
        raise MalformedPayload(field="body", problem=problem)
    for name in sorted(call.query.keys() - known - SAID_OF_ANY_ORDER):
        problem = f"there is no such parameter; it takes {', '.join(sorted(known | SAID_OF_ANY_ORDER))}"
        raise MalformedPayload(field=name, problem=problem)


def _reading(
    handler: Taking[TakesT], takes: type[TakesT], status: int, body_bytes_max: int
) -> Callable[[Call], Awaitable[Answer]]:
    decode = msgspec.json.Decoder(takes).decode
    hear = _hearing(takes)

    async def run(call: Call) -> Answer:
        text = await call.read(body_bytes_max) or b"{}"
        try:
            body = decode(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
            raise malformed(problem, shape=takes) from problem
        return _answer(await handler(call, hear(body)), status)

    return run


def _hearing(takes: type[TakesT]) -> Callable[[TakesT], TakesT]:
    """Takes secrets out of the reason for an order, if it has one: that is told to many, and kept for ever."""
    if "reason" not in getattr(takes, "__struct_fields__", ()):
        return lambda said: said

    def hear(said: TakesT) -> TakesT:
        order: Any = said
        kept = redact_text(order.reason)
        return said if kept == order.reason else msgspec.structs.replace(order, reason=kept)

    return hear


def _answer(given: Shape | Answer, status: int) -> Answer:
    return given if isinstance(given, Answer) else Answer(status, _encode(given))


NOTHING = Answer(204, b"")
