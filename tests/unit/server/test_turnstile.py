"""Under a load of thousands an operator's word is heard in the round of the loop in which it comes."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import pytest

from homeostat.core.urgency import is_urgent
from homeostat.server.application import table_of
from homeostat.server.patience import Patience
from homeostat.server.serving import bind, serving_app, url_of
from homeostat.server.turnstile import AT_ONCE, BY_A_TASK, ROOM, ROOM_MEANWHILE, Turnstile, is_control

CONTROL = {
    *("kill_agent", "quarantine_agent", "release_agent", "cordon_agent", "drain_agent", "kill_run", "pause_run"),
    *("resume_run", "approve_task", "reject_task", "approve", "reject", "approve_all", "press_button", "lift_button"),
    *("stop_turn", "revoke_key"),
}


T = TypeVar("T")

TASKS_PER_ROUND = ROOM // BY_A_TASK


def request(path: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


class Listed:
    """Notes in which order requests begin, and which of them are urgent."""

    def __init__(self) -> None:
        self.patience = Patience()
        self.begun: list[tuple[str, bool]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del receive, send
        self.begun.append((scope["path"], await asyncio.create_task(urgent_below())))
        scope["extensions"]["homeostat.answer"](200, [], b"")


def beginning(begun: list[T], takes: int) -> Callable[[T], int]:
    def begin(request: T) -> int:
        begun.append(request)
        return takes

    return begin


async def urgent_below() -> bool:
    return is_urgent()


def test_what_operators_do_is_told_from_what_agents_do_by_its_path() -> None:
    found = {one.name for one in table_of() if one.method != "GET" and is_control(one.path.encode())}
    assert found == CONTROL
    watched = {one.path for one in table_of() if one.method == "GET" and is_control(one.path.encode())}
    assert watched == {"/livez", "/readyz", "/v1/red-button", "/v1/agents/{agent_id}/cordon"}
    assert not is_control(b"/openai/v1/kill"), "an agent names what it asks an upstream for"


@pytest.mark.parametrize("takes", [AT_ONCE, BY_A_TASK])
async def test_so_many_requests_begin_in_a_round_and_the_rest_in_order(takes: int) -> None:
    turnstile, loop = Turnstile(), asyncio.get_running_loop()
    begun: list[int] = []
    begin, fit = beginning(begun, takes), ROOM // takes
    for number in range(3 * fit):
        turnstile.enter(loop, begin, number)
    assert len(begun) == fit
    for rounds in (2, 3):
        await asyncio.sleep(0)
        assert begun == list(range(rounds * fit))
    await asyncio.sleep(0)
    turnstile.enter(loop, begin, -1)
    assert begun[-1] == -1, "who comes when nobody waits does not wait"


async def test_whoever_comes_while_others_wait_is_behind_them() -> None:
    turnstile, loop = Turnstile(), asyncio.get_running_loop()
    begun: list[str] = []
    begin = beginning(begun, BY_A_TASK)
    for _ in range(TASKS_PER_ROUND):
        turnstile.enter(loop, begin, "at once")
    turnstile.enter(loop, begin, "first")
    turnstile.enter(loop, begin, "second")
    assert set(begun) == {"at once"}
    await asyncio.sleep(0)
    assert begun[TASKS_PER_ROUND:] == ["first", "second"]


@pytest.mark.parametrize("path", ["/v1/agents/ann/kill", "/v1/runs/r/tasks/t/approve", "/v1/red-button"])
async def test_an_operators_word_passes_those_that_wait(path: str) -> None:
    listed = Listed()
    listener = bind("127.0.0.1", 0)
    async with serving_app(listed, listener), asyncio.timeout(30):
        port = int(url_of(listener).rsplit(":", 1)[1])
        lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8 * TASKS_PER_ROUND)]
        *many, operator = lines
        for _, writer in many:
            writer.write(request("/v1/agents/ann/inbox"))
        operator[1].write(request(path))
        answers = await asyncio.gather(*(reader.read() for reader, _ in lines))
        for _, writer in lines:
            writer.close()
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert sorted(listed.begun) == sorted([("/v1/agents/ann/inbox", False)] * len(many) + [(path, True)])
    assert listed.begun.index((path, True)) <= 2 * TASKS_PER_ROUND, "it stood in line"


async def test_an_operators_word_that_is_said_again_is_as_urgent() -> None:
    listed = Listed()
    listener = bind("127.0.0.1", 0)
    async with serving_app(listed, listener), asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url_of(listener).rsplit(":", 1)[1]))
        for _ in range(3):
            writer.write(b"POST /v1/agents/ann/kill HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
            await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert listed.begun == [("/v1/agents/ann/kill", True)] * 3


async def test_a_client_that_hangs_up_while_it_waits_costs_nothing_and_blocks_nobody() -> None:
    listed = Listed()
    listener = bind("127.0.0.1", 0)
    async with serving_app(listed, listener), asyncio.timeout(30):
        port = int(url_of(listener).rsplit(":", 1)[1])
        lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4 * TASKS_PER_ROUND)]
        for _, writer in lines:
            writer.write(request("/v1/agents/ann/inbox"))
        for _, writer in lines[1::2]:
            writer.transport.abort()
        answers = await asyncio.gather(*(reader.read() for reader, _ in lines[::2]))
        for _, writer in lines:
            writer.close()
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)


# --- while an order is late ------------------------------------------------------------------------------------------


class Heard(NamedTuple):
    more_body: bool


WHOLE = Heard(more_body=False)


def begun_in_a_round(turnstile: Turnstile) -> int:
    begun: list[int] = []
    for number in range(2 * ROOM):
        turnstile.enter(asyncio.get_running_loop(), beginning(begun, AT_ONCE), number)
    return len(begun)


async def let_through() -> None:
    for _ in range(2 * ROOM // ROOM_MEANWHILE + 2):
        await asyncio.sleep(0)


async def test_while_an_order_is_late_fewer_others_begin_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.server.turnstile.ORDER_SECONDS", 0.0)
    turnstile, loop = Turnstile(), asyncio.get_running_loop()
    said = asyncio.Event()

    async def wait() -> None:
        await said.wait()

    first, second = (loop.create_task(wait()) for _ in range(2))
    turnstile.attend(loop, first, WHOLE)
    assert begun_in_a_round(turnstile) == ROOM, "it is in time"
    await let_through()
    turnstile.attend(loop, second, WHOLE)
    await asyncio.sleep(0.01)
    assert begun_in_a_round(turnstile) == ROOM_MEANWHILE
    await let_through()
    first.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert begun_in_a_round(turnstile) == ROOM_MEANWHILE, "another one is as late"
    await let_through()
    said.set()
    await second
    await asyncio.sleep(0)
    assert begun_in_a_round(turnstile) == ROOM


async def test_an_order_that_hangs_keeps_others_back_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.server.turnstile.ORDER_SECONDS", 0.0)
    monkeypatch.setattr("homeostat.server.turnstile.MEANWHILE_SECONDS", 0.5)
    turnstile, loop = Turnstile(), asyncio.get_running_loop()
    hanging = loop.create_task(asyncio.sleep(60))
    turnstile.attend(loop, hanging, WHOLE)
    await asyncio.sleep(0.01)
    assert begun_in_a_round(turnstile) == ROOM_MEANWHILE
    await let_through()
    await asyncio.sleep(0.5)
    assert begun_in_a_round(turnstile) == ROOM
    hanging.cancel()


async def test_an_order_that_is_done_in_time_keeps_nobody_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.server.turnstile.ORDER_SECONDS", 0.01)
    turnstile, loop = Turnstile(), asyncio.get_running_loop()
    turnstile.attend(loop, loop.create_task(asyncio.sleep(0)), WHOLE)
    await asyncio.sleep(0.05)
    assert begun_in_a_round(turnstile) == ROOM


async def test_an_order_that_is_said_slowly_keeps_nobody_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.server.turnstile.ORDER_SECONDS", 0.0)
    turnstile, loop = Turnstile(), asyncio.get_running_loop()
    unheard = loop.create_task(asyncio.sleep(60))
    turnstile.attend(loop, unheard, Heard(more_body=True))
    await asyncio.sleep(0.01)
    assert begun_in_a_round(turnstile) == ROOM
    unheard.cancel()
