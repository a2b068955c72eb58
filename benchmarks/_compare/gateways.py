"""Gateways: the same request through each, before the same upstream, one core for the subject and one for the rest."""

import asyncio
import os
import statistics
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import uvloop

from benchmarks._compare.footprint import LITELLM
from benchmarks._compare.kept import Figures
from benchmarks._compare.peers_at import PEERS_AT, install, install_portkey
from benchmarks._gateway_parties import BODY, PATH, Ours, all_in_one, alone, cpu_seconds, fast_model, nginx, pin
from benchmarks._http_load import Measured, post, saturate
from benchmarks._peers import litellm, portkey, standing_still

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
    """Ours as a process of its own in turn with the peer, then what `homeostat up` does in its one process."""
    pin(os.getpid(), 0)
    with tempfile.TemporaryDirectory() as folder, fast_model() as model, _theirs(peer, model, Path(folder)) as theirs:
        if theirs is None:
            raise RuntimeError(f"{peer} is not installed, or does not answer")
        figures: Figures = {}
        with alone(model) as ours:
            for clients in LOADS:
                figures[str(clients)] = await _paired(peer, theirs, _subject(ours), clients, seconds)
        with all_in_one(model) as ours:
            for clients in LOADS:
                taken = [await _taken(_subject(ours), clients, seconds) for _ in range(ROUNDS)]
                figures[str(clients)] |= {
                    "all_in_one": statistics.median(one.rate for one, _ in taken),
                    "all_in_one_p50_ms": statistics.median(one.p50_ms for one, _ in taken),
                    "all_in_one_cpu_us": statistics.median(cpu for _, cpu in taken),
                }
        return figures


async def _paired(peer: str, theirs: Subject, ours: Subject, clients: int, seconds: float) -> Figures:
    taken: list[tuple[tuple[Measured, float], tuple[Measured, float]]] = []
    for _ in range(ROUNDS):
        answered = await _taken(theirs, clients, seconds)
        with standing_still(theirs.process):
            taken.append((answered, await _taken(ours, clients, seconds)))
    pairs = [pair for pair in taken if pair[0][0].rate and pair[1][0].rate]
    if not pairs:
        raise RuntimeError(f"nobody was answered within {seconds:g} s at c = {clients}")
    shown: Figures = {
        "theirs": statistics.median(one.rate for (one, _), _ in pairs),
        "ours": statistics.median(one.rate for _, (one, _) in pairs),
        "times": statistics.median(mine.rate / one.rate for (one, _), (mine, _) in pairs),
        "theirs_p50_ms": statistics.median(one.p50_ms for (one, _), _ in pairs),
        "ours_p50_ms": statistics.median(one.p50_ms for _, (one, _) in pairs),
        "theirs_cpu_us": statistics.median(cpu for (_, cpu), _ in pairs),
        "ours_cpu_us": statistics.median(cpu for _, (_, cpu) in pairs),
        "failures": sum(one.failures + mine.failures for (one, _), (mine, _) in pairs),
    }
    print(f"    c={clients:<3} {peer} {shown['theirs']:,.0f}/s, ours {shown['ours']:,.0f}/s", flush=True)
    return shown


async def _taken(subject: Subject, clients: int, seconds: float) -> tuple[Measured, float]:
    before = cpu_seconds(subject.process)
    measured = await saturate(subject.port, [subject.request], connections=clients, seconds=seconds)
    return measured, (cpu_seconds(subject.process) - before) / max(measured.asked, 1) * 1e6


def _subject(ours: Ours) -> Subject:
    """Metered, under a budget, a token cap and a rate limit: what a peer without them is not asked for."""
    return Subject(ours.port, ours.request, ours.process)


@contextmanager
def _theirs(peer: str, model: int, folder: Path) -> Generator[Subject | None, None, None]:
    if peer == "nginx":
        with nginx(folder, model) as port:
            yield None if port is None else Subject(port, post(PATH.removeprefix("/openai"), BODY), None)
        return
    with (litellm if peer == "litellm" else portkey)(folder, model, BODY) as started:
        if started is None:
            yield None
            return
        pin(started.process.pid, 1)
        yield Subject(started.port, started.request, started.process)
