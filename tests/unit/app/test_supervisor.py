"""Loops are started in order, stopped in reverse, and none fails unnoticed."""

import asyncio

import pytest

from homeostat.app import supervisor as module
from homeostat.app.supervisor import Supervisor


async def test_loops_stop_in_reverse_each_before_the_next() -> None:
    told: list[str] = []

    def loop(name: str) -> module.Run:
        async def run() -> None:
            told.append(f"{name} starts")
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                told.append(f"{name} stops")

        return run

    supervisor = Supervisor()
    for name in ("one", "two", "three"):
        supervisor.add(name, loop(name))
        await asyncio.sleep(0)
    await supervisor.stop()
    assert told == [
        *("one starts", "two starts", "three starts"),
        *("three stops", "two stops", "one stops"),
    ]


@pytest.mark.parametrize("ending", [ValueError("broken"), None])
async def test_a_loop_that_ends_begins_again_and_is_reported(
    ending: Exception | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "BACKOFF_SECONDS_FIRST", 0.0)
    runs = 0
    enough = asyncio.Event()

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs == 4:
            enough.set()
            await asyncio.Event().wait()
        if ending is not None:
            raise ending

    supervisor = Supervisor()
    child = supervisor.add("the flaky one", run)
    async with asyncio.timeout(10):
        await enough.wait()
    assert (child.failures, child.last_error) == (3, ending)
    assert caplog.text.count("the flaky one") == 3
    await supervisor.stop()


async def test_a_loop_that_fails_while_it_is_stopped_does_not_keep_the_others_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("on the way out")

    async def quiet() -> None:
        await asyncio.Event().wait()

    supervisor = Supervisor()
    first = supervisor.add("quiet", quiet)
    supervisor.add("stubborn", stubborn)
    await asyncio.sleep(0)
    await supervisor.stop()
    assert first.task is not None
    assert first.task.cancelled()
    assert "stubborn" in caplog.text
