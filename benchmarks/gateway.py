"""One gateway process before a fast local upstream, beside the direct connection, nginx and other gateways, if any.

The rows of `gateway` carry the targets: it is the process that a busy installation runs, with metering, policies and
budgets on, and its books in PostgreSQL. Those of `all in one` say what `homeostat up` does in its one process.
"""

import asyncio
import json
import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from benchmarks._gateway_parties import (
    BODY,
    CHAT,
    FORMS,
    PATH,
    Ours,
    Place,
    alone,
    cpu_seconds,
    fast_model,
    get,
    nginx,
    pin,
    put,
    register,
)
from benchmarks._http_load import Measured, post, saturate
from benchmarks._measure import Report, heading
from benchmarks._models import PACE_SECONDS, PACED_EVENTS
from benchmarks._peers import litellm, portkey, standing_still

ROUNDS = 3
SECONDS = 2.0
STREAMS = 16
PACED = 64
MEMORY_REQUESTS = 100_000
PACED_SECONDS = PACED_EVENTS * PACE_SECONDS
POSTED_SECONDS = 0.5  # until what a gateway spent stands in the ledger


def run() -> None:
    """Print every measurement beside its floor and its target."""
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_run())


async def _run() -> None:
    heading("gateway")
    report = Report("gateway")
    pin(os.getpid(), 0)
    with fast_model() as model, tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            with form(model) as ours:
                places = [Place("direct", model, PATH.removeprefix("/openai"), None)]
                with nginx(Path(folder), model) as port:
                    if port is not None:
                        places.append(Place("nginx", port, PATH.removeprefix("/openai"), None))
                    places.append(ours.place)
                    await _requests(report, places, ours.key)
                    await _latency(report, places, ours.key)
                    await _streams(report, places, ours.key)
                    await _first_bytes(report, places, ours.key)
                if form is alone:
                    await _peers(report, Path(folder), model, ours)
                await _own(report, ours)
    report.write()


# --- beside others -------------------------------------------------------------------------------------------


async def _requests(report: Report, places: list[Place], key: str) -> None:
    rounds: list[dict[str, Measured]] = []
    cpu: list[float] = []
    for _ in range(ROUNDS):
        taken: dict[str, Measured] = {}
        for place in places:
            before = cpu_seconds(place.process)
            taken[place.title] = await saturate(place.port, [_request(place, key)], connections=64, seconds=SECONDS)
            if place.process is not None:
                cpu.append((cpu_seconds(place.process) - before) / taken[place.title].asked * 1e6)
        rounds.append(taken)
    floor = "nginx" if "nginx" in rounds[0] else "direct"
    for place in places:
        rates = [taken[place.title].rate for taken in rounds]
        ratio = statistics.median(taken[place.title].rate / taken[floor].rate for taken in rounds)
        facts = {"cpu_us": statistics.median(cpu)} if place.process is not None else {}
        failures = sum(taken[place.title].failures for taken in rounds)
        figures = {"per_second": statistics.median(rates), f"of_{floor}": ratio, "failures": failures, **facts}
        report.add(f"requests at concurrency 64, {place.title}", **figures)


async def _latency(report: Report, places: list[Place], key: str) -> None:
    taken: dict[str, float] = {}
    for place in places:
        measured = await saturate(place.port, [_request(place, key)], connections=1, seconds=SECONDS)
        taken[place.title] = measured.p50_ms
        times = measured.p50_ms / taken["direct"]
        report.add(f"p50 at concurrency 1, {place.title}", ms=measured.p50_ms, times_direct=times)


async def _streams(report: Report, places: list[Place], key: str) -> None:
    rates: dict[str, float] = {}
    for place in places:
        runs = [await _streamed(place, key) for _ in range(ROUNDS)]
        rates[place.title] = statistics.median(runs)
        figures = {"per_second": rates[place.title], "of_direct": rates[place.title] / rates["direct"]}
        report.add(f"streamed events, {STREAMS} streams, {place.title}", **figures)


async def _streamed(place: Place, key: str) -> float:
    request = _request(place, key, stream=True, stream_options={"include_usage": True})
    began = time.perf_counter()
    counts = await asyncio.gather(*(_read_streams(place.port, request, 6) for _ in range(STREAMS)))
    return sum(count for count, _ in counts) / (time.perf_counter() - began)


async def _first_bytes(report: Report, places: list[Place], key: str) -> None:
    """While so many streams are open that begin evenly spread, and where all of them begin at once."""
    for title, spread in (("", PACED_SECONDS / PACED), (" begun at once", 0.0)):
        direct = 0.0
        heard: list[tuple[int, float]] = []
        for place in places:
            request = _request(place, key, stream=True, user="paced", stream_options={"include_usage": True})
            for _ in range(2):  # the first round opens connections, as it would only once a day
                readers = (_read_streams(place.port, request, 1, number * spread) for number in range(PACED))
                heard = await asyncio.gather(*readers)
            taken = statistics.median(first for _, first in heard) * 1000
            direct = taken if place.title == "direct" else direct
            report.add(
                f"first byte of {PACED} paced streams{title}, {place.title}", ms=taken, over_direct_ms=taken - direct
            )


async def _read_streams(port: int, request: bytes, count: int, delay_seconds: float = 0.0) -> tuple[int, float]:
    """Ask for streams one after the other on one connection; how many events came, and when the first byte did."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(delay_seconds)
    events, first = 0, 0.0
    for _ in range(count):
        began = time.perf_counter()
        writer.write(request)
        tail = b""
        while not tail.endswith(b"0\r\n\r\n"):
            data = await reader.read(1 << 16)
            assert data, "the stream was cut"
            first = first or time.perf_counter() - began
            events += data.count(b"chat.completion.chunk")
            tail = (tail + data)[-16:]
    writer.close()
    return events, first


async def _peers(report: Report, folder: Path, model: int, us: Ours) -> None:
    """Each is measured in turn with us, one at a time: two cores hold no more.

    `times_their_cpu` compares processor time per request, which says the same on a machine that others use as well.
    """
    for peer_of, target in ((litellm, ">= 75"), (portkey, ">= 12")):
        with peer_of(folder, model, BODY) as peer:
            if peer is None:
                continue
            pin(peer.process.pid, 1)
            them = Place(peer.title, peer.port, "", peer.process)
            pairs: list[tuple[Measured, Measured]] = []
            for _ in range(ROUNDS):
                theirs = await _timed(them, peer.request, seconds=SECONDS * 2)
                with standing_still(peer.process):
                    pairs.append((theirs, await _timed(us.place, us.request, seconds=SECONDS)))
            report.add(
                f"requests at concurrency 16, {peer.title}",
                per_second=statistics.median(theirs.rate for theirs, _ in pairs),
                failures=sum(theirs.failures for theirs, _ in pairs),
                ours_per_second=statistics.median(mine.rate for _, mine in pairs),
                times_theirs=statistics.median(mine.rate / theirs.rate for theirs, mine in pairs if theirs.rate),
                times_their_cpu=statistics.median(theirs.cpu_us / mine.cpu_us for theirs, mine in pairs),
                target=target,
            )


async def _timed(place: Place, request: bytes, *, seconds: float) -> Measured:
    before = cpu_seconds(place.process)
    measured = await saturate(place.port, [request], connections=16, seconds=seconds)
    return replace(measured, cpu_us=(cpu_seconds(place.process) - before) / measured.asked * 1e6)


# --- against itself ------------------------------------------------------------------------------------------


async def _own(report: Report, ours: Ours) -> None:
    chat, key, port = ours.place, ours.key, ours.port
    bare = Place("bare", port, "/openai/v1/unread", ours.process)
    unbudgeted = register(ours.url, "una")  # what is not read cannot be priced, and a budget in dollars refuses it
    costs: list[list[float]] = []
    for _ in range(ROUNDS):
        cost: list[float] = []
        for place, who in ((bare, unbudgeted), (chat, key)):
            before = cpu_seconds(place.process)
            measured = await saturate(port, [_request(place, who)], connections=64, seconds=SECONDS / 2)
            assert not measured.failures, f"{place.title} was refused"
            cost.append((cpu_seconds(place.process) - before) / measured.asked * 1e6)
        costs.append(cost)
    times = statistics.median(metered / plain for plain, metered in costs)
    bare_us = statistics.median(plain for plain, _ in costs)
    report.add(
        f"CPU with metering, policies and budget, {ours.title}", times_bare=times, bare_us=bare_us, target="<= 1.25"
    )
    proxied = await saturate(port, [ours.request], connections=64, seconds=SECONDS * 2)
    resident, asked = ours.process.memory_info().rss, 0
    while asked < MEMORY_REQUESTS:
        asked += (await saturate(port, [ours.request], connections=64, seconds=SECONDS * 2)).asked
    grown = ours.process.memory_info().rss - resident
    report.add(f"memory, {ours.title}", grown_kb=grown / 1024, requests=asked, resident_mb=resident / (1 << 20))
    blocked_key = register(ours.url, "bob")
    put(ours.url, "/v1/policies/stop", {"action": "block", "agent_id": "bob"})
    blocked = await saturate(port, [_request(chat, blocked_key)], connections=64, seconds=SECONDS)
    times = blocked.rate / proxied.rate
    report.add(f"503 of a blocked agent, {ours.title}", per_second=blocked.rate, times_proxied=times, target=">= 3")
    await _overspend(report, ours)


async def _overspend(report: Report, ours: Ours) -> None:
    key = register(ours.url, "cid")
    put(ours.url, "/v1/budgets/agent/cid", {"tokens": 100_000})
    request = post(PATH, json.dumps({**CHAT, "max_tokens": 100}, separators=(",", ":")).encode(), key=key)
    await saturate(ours.port, [request], connections=64, seconds=SECONDS)
    await asyncio.sleep(POSTED_SECONDS)
    account = get(ours.url, "/v1/budgets/agent/cid")
    over = max(0, account["tokens_spent"] + account["tokens_held"] - account["tokens"])
    figures = {"tokens": over, "spent": account["tokens_spent"], "of": account["tokens"]}
    report.add(f"overspend at concurrency 64, {ours.title}", **figures)


def _request(place: Place, key: str, **fields: Any) -> bytes:
    return post(place.path, json.dumps({**CHAT, **fields}, separators=(",", ":")).encode(), key=key)
