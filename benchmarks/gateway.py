"""One gateway process before a fast local upstream, beside the direct connection, nginx and other gateways, if any."""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import psutil
import uvloop

from benchmarks._http_load import Measured, post, saturate
from benchmarks._measure import Report, heading
from benchmarks._models import PACE_SECONDS, PACED_EVENTS
from benchmarks._peers import litellm, portkey
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.servers import free_port

ROUNDS = 3
SECONDS = 2.0
STREAMS = 16
PACED = 64
MEMORY_REQUESTS = 100_000
PACED_SECONDS = PACED_EVENTS * PACE_SECONDS
CHAT: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello " * 40}]}
PATH = "/openai/v1/chat/completions"


@dataclass(frozen=True)
class Place:
    """Something that answers, and the process whose CPU counts."""

    title: str
    port: int
    path: str
    process: psutil.Process | None


def run() -> None:
    """Print every measurement beside its floor and its target."""
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_run())


async def _run() -> None:
    heading("gateway")
    report = Report("gateway")
    _pin(os.getpid(), 0)
    with _model() as model, tempfile.TemporaryDirectory() as folder:
        upstream = f"openai=http://127.0.0.1:{model}"
        with HomeostatServer("--upstreams", upstream, command="up", data_dir=Path(folder) / "data") as server:
            _pin(server.pid, 1)
            port = int(server.url.rsplit(":", 1)[1])
            _spare(server.url)
            key = _register(server.url, "ann")
            _put(server.url, "/v1/budgets/agent/ann", {"tokens": 1 << 50, "usd": 1e6})
            _put(server.url, "/v1/policies/cap", {"action": "token_cap", "max_tokens": 4_000})
            _put(server.url, "/v1/policies/rate", {"action": "rate_limit", "requests_per_minute": 1 << 40})
            places = [Place("direct", model, PATH.removeprefix("/openai"), None)]
            with _nginx(Path(folder), model) as nginx:
                if nginx is not None:
                    places.append(Place("nginx", nginx, PATH.removeprefix("/openai"), None))
                places.append(Place("gateway", port, PATH, psutil.Process(server.pid)))
                await _requests(report, places, key)
                await _latency(report, places, key)
                await _streams(report, places, key)
                await _first_bytes(report, places, key)
            await _peers(report, Path(folder), model, places[-1], key)
            await _own(report, server, port, key)
    report.write()


# --- beside others -------------------------------------------------------------------------------------------


async def _requests(report: Report, places: list[Place], key: str) -> None:
    rounds: list[dict[str, Measured]] = []
    cpu: list[float] = []
    for _ in range(ROUNDS):
        taken: dict[str, Measured] = {}
        for place in places:
            before = _cpu(place)
            taken[place.title] = await saturate(place.port, [_request(place, key)], connections=64, seconds=SECONDS)
            if place.process is not None:
                cpu.append((_cpu(place) - before) / taken[place.title].asked * 1e6)
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


async def _peers(report: Report, folder: Path, model: int, us: Place, key: str) -> None:
    """Each is measured in turn with us, one at a time: two cores hold no more.

    `times_their_cpu` compares processor time per request, which says the same on a machine that others use as well.
    """
    body = json.dumps(CHAT, separators=(",", ":")).encode()
    ours = post(PATH, body, key=key)
    for peer_of, target in ((litellm, ">= 75"), (portkey, ">= 12")):
        with peer_of(folder, model, body) as peer:
            if peer is None:
                continue
            for one in (peer.process, *peer.process.children(recursive=True)):
                _pin(one.pid, 1)
            them = Place(peer.title, peer.port, "", peer.process)
            pairs: list[tuple[Measured, Measured]] = []
            for _ in range(ROUNDS):
                theirs = await _timed(them, peer.request, seconds=SECONDS * 2)
                pairs.append((theirs, await _timed(us, ours, seconds=SECONDS)))
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
    before = _cpu(place)
    measured = await saturate(place.port, [request], connections=16, seconds=seconds)
    return replace(measured, cpu_us=(_cpu(place) - before) / measured.asked * 1e6)


# --- against itself ------------------------------------------------------------------------------------------


async def _own(report: Report, server: HomeostatServer, port: int, key: str) -> None:
    process = psutil.Process(server.pid)
    chat = Place("gateway", port, PATH, process)
    bare = Place("bare", port, "/openai/v1/unread", process)
    unbudgeted = _register(server.url, "una")  # what is not read cannot be priced, and a budget in dollars refuses it
    costs: list[list[float]] = []
    for _ in range(ROUNDS):
        cost: list[float] = []
        for place, who in ((bare, unbudgeted), (chat, key)):
            before = _cpu(place)
            measured = await saturate(port, [_request(place, who)], connections=64, seconds=SECONDS / 2)
            assert not measured.failures, f"{place.title} was refused"
            cost.append((_cpu(place) - before) / measured.asked * 1e6)
        costs.append(cost)
    times = statistics.median(metered / plain for plain, metered in costs)
    bare_us = statistics.median(plain for plain, _ in costs)
    report.add("CPU with metering, policies and budget", times_bare=times, bare_us=bare_us, target="<= 1.25")
    proxied = await saturate(port, [_request(chat, key)], connections=64, seconds=SECONDS * 2)
    resident, asked = process.memory_info().rss, 0
    while asked < MEMORY_REQUESTS:
        asked += (await saturate(port, [_request(chat, key)], connections=64, seconds=SECONDS * 2)).asked
    grown = process.memory_info().rss - resident
    report.add("memory", grown_kb=grown / 1024, requests=asked, resident_mb=resident / (1 << 20))
    blocked_key = _register(server.url, "bob")
    _put(server.url, "/v1/policies/stop", {"action": "block", "agent_id": "bob"})
    blocked = await saturate(port, [_request(chat, blocked_key)], connections=64, seconds=SECONDS)
    times = blocked.rate / proxied.rate
    report.add("503 of a blocked agent", per_second=blocked.rate, times_proxied=times, target=">= 3")
    await _overspend(report, server.url, port)


async def _overspend(report: Report, url: str, port: int) -> None:
    key = _register(url, "cid")
    _put(url, "/v1/budgets/agent/cid", {"tokens": 100_000})
    request = post(PATH, json.dumps({**CHAT, "max_tokens": 100}, separators=(",", ":")).encode(), key=key)
    await saturate(port, [request], connections=64, seconds=SECONDS)
    account = _get(url, "/v1/budgets/agent/cid")
    over = max(0, account["tokens_spent"] + account["tokens_held"] - account["tokens"])
    report.add("overspend at concurrency 64", tokens=over, spent=account["tokens_spent"], of=account["tokens"])


# --- the parties ---------------------------------------------------------------------------------------------


def _request(place: Place, key: str, **fields: Any) -> bytes:
    return post(place.path, json.dumps({**CHAT, **fields}, separators=(",", ":")).encode(), key=key)


@contextmanager
def _model() -> Generator[int, None, None]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks._models", str(port)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        _pin(process.pid, 0)
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def _nginx(folder: Path, model: int) -> Generator[int | None, None, None]:
    """One nginx worker with a pool of connections, where nginx is installed."""
    program = shutil.which("nginx")
    if program is None:
        print("  nginx is not installed: its share of these figures is left out")
        yield None
        return
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(
        f"worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log stderr crit;\n"
        "events { worker_connections 1024; }\n"
        f"http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n"
        f"  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n"
        f"  upstream model {{ server 127.0.0.1:{model}; keepalive 128; }}\n"
        f"  server {{ listen 127.0.0.1:{port}; keepalive_requests 10000000; location / {{ proxy_pass http://model;\n"
        '    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } } }\n'
    )
    process = subprocess.Popen([program, "-p", str(folder), "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        for one in (psutil.Process(process.pid), *psutil.Process(process.pid).children()):
            _pin(one.pid, 1)
        yield port
    finally:
        process.terminate()
        process.wait()


def _pin(pid: int, core: int) -> None:
    """The subject has a core to itself, as far as there are two."""
    cores = sorted(os.sched_getaffinity(0)) if core == 0 else list(range(os.cpu_count() or 1))
    if (os.cpu_count() or 1) > 1:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cores[core % len(cores)]})


def _cpu(place: Place) -> float:
    if place.process is None:
        return 0.0
    family = [place.process, *place.process.children(recursive=True)]
    return sum(times.user + times.system for times in (one.cpu_times() for one in family))


def _spare(url: str) -> None:
    """Load like this looks ill. With one agent isolated the immune system may not isolate a second of so few."""
    _register(url, "decoy")
    _send(url, "POST", "/v1/agents/decoy/quarantine", {"reason": "so that nobody else is"})


def _register(url: str, agent_id: str) -> str:
    return _send(url, "POST", "/v1/agents/register", {"agent_type": "bench", "agent_id": agent_id})["api_key"]


def _put(url: str, path: str, body: dict[str, Any]) -> None:
    _send(url, "PUT", path, body)


def _get(url: str, path: str) -> dict[str, Any]:
    return _send(url, "GET", path, None)


def _send(url: str, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"}, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return cast("dict[str, Any]", json.load(answer))
