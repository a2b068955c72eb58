"""What tests of a campaign's checks share: nobody waits for real."""

import asyncio

import pytest

from homeostat.testing.clock import ManualClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """A clock that goes on as soon as somebody sleeps."""
    turned, sleep = ManualClock(), asyncio.sleep

    async def pass_by(seconds: float) -> None:
        turned.advance(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pass_by)
    return turned
