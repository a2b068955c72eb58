"""What a command does that follows something while its server is away for a moment."""

import asyncio
import sys
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from homeostat.cli import drill, events, looking, run_view, turns
from homeostat.cli.tables import Screen
from homeostat.client.client import Client
from homeostat.core.clock import SystemClock
from homeostat.core.errors import InternalError, ServerUnreachable, StoreUnavailable

AWAY = [*[ServerUnreachable(url="http://there", problem="refused")] * 3, StoreUnavailable(problem="no")]
TOLD = "homeostat: http://there did not answer: refused. It is tried again; Ctrl-C leaves {} as it is."


class Away:
    """A server that answers now and then."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def read_json(self, _: str) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def enqueue(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(turn_id="turn_1")

    async def deliverable(self, _: str, **__: object) -> Any:
        return SimpleNamespace(error=None) if await self.read_json("") else None


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (looking, events):
        monkeypatch.setattr(module, "AWAY_SECONDS", 0.0)
    for module in (drill, run_view):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)


async def test_a_run_is_followed_on(capsys: pytest.CaptureFixture[str]) -> None:
    budget = {"usd_max": None, "tokens_max": None, "seconds_max": None, "seconds_spent": 1.0, "forecast": None}
    begun: dict[str, Any] = {"run_id": "run_1", "status": "applying", "tasks": {}, "budget": budget}
    ended = {**begun, "status": "completed", "at_rest": True}
    client = cast("Client", Away(begun, *AWAY, ended))
    assert await run_view.follow(client, begun, quiet=True) == ended
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", [TOLD.format("the run")])


RUN: dict[str, Any] = {
    "run_id": "run_1",
    "goal": "a goal",
    "status": "applying",
    "tasks": {"running": 2, "succeeded": 2},
    "moved": {"actor": "scheduler", "reason": "all is done"},
    "paused_by": None,
    "budget": {
        **dict.fromkeys(("usd_max", "tokens_max", "seconds_max", "forecast", "reached_in_seconds")),
        "seconds_spent": 1.0,
    },
}
ENDED = {**RUN, "status": "completed", "at_rest": True, "tasks": {"succeeded": 4}}
LINE = "applying · [##########..........] 2/4 · 2 running · 1 s"


async def test_the_line_of_a_run_is_as_long_as_the_terminal_is_wide(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that reaches the edge goes on below, and only what is below is written over."""
    widths = [200, 200, 40, 40]
    monkeypatch.setattr(run_view, "screen", lambda: Screen(widths[len(client.answers)]))
    client = Away(RUN, {**RUN}, ENDED)
    await run_view.follow(cast("Client", client), {**RUN}, quiet=False)
    told = capsys.readouterr().out.split("\n")
    assert told[0] == "run_1  a goal"
    assert told[1].split("\r")[1:] == [
        *(LINE.split(" · 2 ", maxsplit=1)[0], LINE),
        "completed · [####################] 4/4 · 1 s",
    ]
    assert told[2:] == ["completed by scheduler: all is done", ""]


async def test_what_is_told_meanwhile_stands_on_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_view, "screen", lambda: Screen(80))
    monkeypatch.setattr(sys, "stderr", sys.stdout)
    await run_view.follow(cast("Client", Away(*AWAY, ENDED)), {**RUN}, quiet=False)
    assert capsys.readouterr().out.splitlines()[1:4] == [
        *("", LINE, TOLD.format("the run")),
    ], "a return begins a line, too, as this is split"


async def test_whoever_leaves_a_run_hears_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_view, "screen", lambda: Screen(80))
    monkeypatch.setattr(sys, "stderr", sys.stdout)
    with pytest.raises(asyncio.CancelledError):
        await run_view.follow(cast("Client", Away(asyncio.CancelledError())), {**RUN}, quiet=False)
    told = capsys.readouterr().out.splitlines()
    assert told[2] == LINE
    assert told[3:5] == ["run_1 goes on without you.", "  homeostat ledger run_1 -f follows it;"]
    away = Away(AWAY[0], asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await run_view.follow(cast("Client", away), {**RUN}, quiet=False)
    assert capsys.readouterr().out.splitlines()[3:6] == [TOLD.format("the run"), "", "run_1 goes on without you."]
    assert all(len(line.replace("run_1", "r" * 28)) < 80 for line in told[3:])


async def test_a_drill_is_followed_on(capsys: pytest.CaptureFixture[str]) -> None:
    begun = {"operation_id": "op_1", "status": "running"}
    ended = {**begun, "status": "lost"}
    client = cast("Client", Away(begun, *AWAY, ended))
    assert await drill.followed(client, begun, quiet=True) == ended
    assert capsys.readouterr().err.splitlines() == [TOLD.format("the drill")]


async def test_a_message_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    client = Away(*AWAY, "ended", {"result": 1})
    _, told = await turns.waited(cast("Client", client), "turn_1", 60.0)
    assert told == {"result": 1}
    assert capsys.readouterr().err.splitlines() == [TOLD.format("turn_1")]


async def test_whoever_has_no_patience_left_hears_what_is_wrong() -> None:
    client = Away(*AWAY)
    with pytest.raises(ServerUnreachable):
        await looking.look(lambda: client.read_json(""), left="it", until=SystemClock().monotonic() - 1)
    assert len(client.answers) == len(AWAY) - 1


async def test_a_server_that_fails_over_itself_is_not_waited_for() -> None:
    client = Away(InternalError(trace_id="4bf9"), {})
    with pytest.raises(InternalError):
        await looking.look(lambda: client.read_json(""), left="it")


async def test_a_stream_is_taken_up_behind_a_server_that_is_not_ready() -> None:
    asked: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers.get("last-event-id"))
        if len(asked) == 2:
            return httpx2.Response(503, json={"code": "store_unavailable", "detail": "no"})
        return httpx2.Response(200, text=f"id: s.{len(asked)}\nevent: hello\ndata: {{}}\n\n")

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer), base_url="http://there")
    client = SimpleNamespace(project="default", url="http://there", transport=SimpleNamespace(http=http))
    async with http, aclosing(events.follow(cast("Client", client))) as told:
        seen = [(await anext(told))["id"] for _ in range(2)]
    assert (seen, asked) == (["s.1", "s.3"], [None, "s.1", "s.1"])
