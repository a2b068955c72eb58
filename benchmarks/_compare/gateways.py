"""Gateways: the same request through each, before the same upstream, one core for the subject and one for the rest."""

import asyncio
import json
import os
import statistics
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import uvloop

from benchmarks._compare.footprint import LITELLM
from benchmarks._compare.kept import Figures
from benchmarks._compare.peers_at import PEERS_AT, install, install_portkey
from benchmarks._http_load import Measured, post, saturate
from benchmarks._peers import litellm, portkey
from benchmarks.gateway import CHAT, PATH, _model, _nginx, _pin, _put, _register, _spare
from homeostat.testing.homeostat import HomeostatServer

ROUNDS = 3
LOADS = (1, 16, 64)
PEERS = ("nginx", "litellm", "portkey")


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that answers a chat completion."""

    port: int
    request: bytes
    process: psutil.Process | None


def measure(peer: str, *, quick: bool) -> Figures:
    """Ours and one peer, taken in turn."""
    if peer == "litellm":
        install(PEERS_AT, LITELLM)
    elif peer == "portkey":
        install_portkey(PEERS_AT)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(peer, 1.0 if quick else 3.0))


async def _measure(peer: str, seconds: float) -> Figures:
    _pin(os.getpid(), 0)
    async with _ours() as (ours, model, folder), _theirs(peer, model, folder) as theirs:
        if theirs is None:
            raise RuntimeError(f"{peer} is not installed, or does not answer")
        figures: Figures = {}
        for clients in LOADS:
            taken = [
                (await _taken(theirs, clients, seconds), await _taken(ours, clients, seconds)) for _ in range(ROUNDS)
            ]
            pairs = [pair for pair in taken if pair[0][0].rate and pair[1][0].rate]
            if not pairs:
                raise RuntimeError(f"nobody was answered within {seconds:g} s at c = {clients}")
            figures[str(clients)] = {
                "theirs": statistics.median(one.rate for (one, _), _ in pairs),
                "ours": statistics.median(one.rate for _, (one, _) in pairs),
                "times": statistics.median(mine.rate / one.rate for (one, _), (mine, _) in pairs),
                "theirs_p50_ms": statistics.median(one.p50_ms for (one, _), _ in pairs),
                "ours_p50_ms": statistics.median(one.p50_ms for _, (one, _) in pairs),
                "theirs_cpu_us": statistics.median(cpu for (_, cpu), _ in pairs),
                "ours_cpu_us": statistics.median(cpu for _, (_, cpu) in pairs),
                "failures": sum(one.failures + mine.failures for (one, _), (mine, _) in pairs),
            }
            shown = figures[str(clients)]
            print(f"    c={clients:<3} {peer} {shown['theirs']:,.0f}/s, ours {shown['ours']:,.0f}/s", flush=True)
        return figures


async def _taken(subject: Subject, clients: int, seconds: float) -> tuple[Measured, float]:
    before = _cpu(subject.process)
    measured = await saturate(subject.port, [subject.request], connections=clients, seconds=seconds)
    return measured, (_cpu(subject.process) - before) / max(measured.asked, 1) * 1e6


def _cpu(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    spent = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in spent)


@asynccontextmanager
async def _ours() -> AsyncGenerator[tuple[Subject, int, Path]]:
    """Metered, under a budget, a token cap and a rate limit: what a peer without them is not asked for."""
    async with AsyncExitStack() as stack:
        model = stack.enter_context(_model())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = f"openai=http://127.0.0.1:{model}"
        server = stack.enter_context(HomeostatServer("--upstreams", upstream, command="up", data_dir=folder / "data"))
        _pin(server.pid, 1)
        _spare(server.url)
        key = _register(server.url, "ann")
        _put(server.url, "/v1/budgets/agent/ann", {"tokens": 1 << 50, "usd": 1e6})
        _put(server.url, "/v1/policies/cap", {"action": "token_cap", "max_tokens": 4_000})
        _put(server.url, "/v1/policies/rate", {"action": "rate_limit", "requests_per_minute": 1 << 40})
        port = int(server.url.rsplit(":", 1)[1])
        yield Subject(port, post(PATH, _body(), key=key), psutil.Process(server.pid)), model, folder


@asynccontextmanager
async def _theirs(peer: str, model: int, folder: Path) -> AsyncGenerator[Subject | None]:
    if peer == "nginx":
        with _nginx(folder, model) as port:
            yield None if port is None else Subject(port, post(PATH.removeprefix("/openai"), _body()), None)
        return
    with (litellm if peer == "litellm" else portkey)(folder, model, _body()) as started:
        if started is None:
            yield None
            return
        for one in (started.process, *started.process.children(recursive=True)):
            _pin(one.pid, 1)
        yield Subject(started.port, started.request, started.process)


def _body() -> bytes:
    return json.dumps(CHAT, separators=(",", ":")).encode()
