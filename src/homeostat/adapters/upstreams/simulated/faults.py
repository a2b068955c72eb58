"""Faults for the simulated model, by script: slow, failing, cut, stalled, garbled, or far too talkative."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

import msgspec

from homeostat.adapters.upstreams.simulated.mind import Mind, Prompt, Reply
from homeostat.adapters.upstreams.simulated.upstream import Pace, Pause, SimulatedResponse, SimulatedUpstream
from homeostat.core.clock import Clock
from homeostat.core.gateway_errors import UpstreamBroke, UpstreamUnreachable
from homeostat.core.ports.upstream import Headers, UpstreamRequest, UpstreamResponse

HEADER: Final = b"x-simulate"
FACTOR_MAX: Final = 1_000
GARBAGE: Final = b"\x00\xfe\xff not what was promised \x7f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong with one call. Numbers behind cut, stall and garbage say after how many events."""

    latency: float = 0.0
    error: int = 0
    refuse: int = 0
    cut: int | None = None
    stall: int | None = None
    garbage: int | None = None
    tokens: int = 1


NONE: Final = Faults()
_KINDS: Final = {field.name: (float if field.name == "latency" else int) for field in fields(Faults)}

Plan = Callable[[UpstreamRequest], Faults | None]
"""Chooses the faults of a call; None leaves it to the call's own header."""


def read_faults(text: str) -> Faults:
    """Read `latency=1.5, cut=3` and the like; what it does not know it ignores."""
    found: dict[str, float | int] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name in _KINDS:
            try:
                found[name] = _KINDS[name](value or 1)
            except ValueError:
                continue
    return msgspec.convert(found, Faults)


class FaultyUpstream:
    """A simulated model that fails when it is told to: by a plan, or by the call's own `X-Simulate` header."""

    def __init__(
        self,
        *,
        seed: int = 0,
        pace: Pace | None = None,
        clock: Clock | None = None,
        pause: Pause = asyncio.sleep,
        plan: Plan | None = None,
    ) -> None:
        self._seed = seed
        self._pace = pace
        self._clock = clock
        self._pause = pause
        self._plan = plan
        self._sound = self._simulation(1)

    def _simulation(self, factor: int) -> SimulatedUpstream:
        mind = Mind(seed=self._seed)

        def talk(prompt: Prompt) -> Reply:
            reply = mind.reply(prompt)
            return Reply(" ".join([reply.text or "And again."] * min(factor, FACTOR_MAX)), reply.calls)

        script = talk if factor > 1 else None
        return SimulatedUpstream(seed=self._seed, pace=self._pace, clock=self._clock, pause=self._pause, script=script)

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        faults = self._faults(request)
        if faults is NONE:
            return await self._sound.send(request)
        if faults.latency > 0:
            await self._pause(faults.latency)
        if faults.refuse:
            raise UpstreamUnreachable(upstream="simulated", problem="it was told not to answer")
        if faults.error:
            return self._fail(faults.error)
        upstream = self._simulation(faults.tokens) if faults.tokens > 1 else self._sound
        response = await upstream.send(request)
        if faults.cut is None and faults.stall is None and faults.garbage is None:
            return response
        return FaultyResponse(response, faults)

    def _faults(self, request: UpstreamRequest) -> Faults:
        if self._plan is not None and (planned := self._plan(request)) is not None:
            return planned
        for name, value in request.headers:
            if name == HEADER:
                return read_faults(value.decode("latin-1"))
        return NONE

    def _fail(self, status: int) -> SimulatedResponse:
        message = "The server is overloaded" if status >= 500 else "The request was turned down"
        body = msgspec.json.encode({"error": {"message": message, "type": "simulated", "code": str(status)}})
        headers: Headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        return SimulatedResponse(status, headers, [(body, 0.0)], self._pause)

    async def close(self) -> None:
        await self._sound.close()


class FaultyResponse:
    """An answer that does not come to its end."""

    def __init__(self, response: UpstreamResponse, faults: Faults) -> None:
        self._response = response
        self._faults = faults
        self._waiting: list[bytes] = []
        self._given = 0
        self._closed = asyncio.Event()

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Headers:
        return [line for line in self._response.headers if line[0] != b"content-length"]

    @property
    def complete(self) -> bool:
        return False

    async def read(self) -> bytes:
        """One event at a time, so that every place between two can be broken."""
        faults = self._faults
        if self._given == faults.cut:
            raise UpstreamBroke(upstream="simulated", problem="the connection was closed")
        if self._given == faults.stall:
            await self._closed.wait()
        if self._closed.is_set():
            raise UpstreamBroke(upstream="simulated", problem="the answer was let go")
        self._given += 1
        if self._given - 1 == faults.garbage:
            return GARBAGE
        if not self._waiting:
            block = await self._response.read()
            self._waiting = [event + b"\n\n" for event in block.removesuffix(b"\n\n").split(b"\n\n")] if block else []
        return self._waiting.pop(0) if self._waiting else b""

    def close(self) -> None:
        self._closed.set()
        self._response.close()
