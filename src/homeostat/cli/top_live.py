"""The live table of `homeostat top`: a feed, what is read beside it, and a terminal that is drawn on."""

import asyncio
import contextlib

import msgspec
import typer

from homeostat.cli.fleet_view import TOP_COLUMNS, Beside, cells, summary, urgency
from homeostat.cli.selection import Selection
from homeostat.cli.surroundings import Spending, around
from homeostat.cli.tables import screen, table
from homeostat.cli.terminal import Terminal
from homeostat.cli.top_view import Rate, TopView
from homeostat.client.client import Client
from homeostat.client.feed import FleetFeed
from homeostat.core.clock import SystemClock
from homeostat.core.errors import HomeostatError

LOOK_SECONDS = 2.0  # how often turns and spending are read, at most


async def show_once(client: Client, wanted: Selection) -> None:
    """The fleet as it stands, for where there is no terminal to draw on."""
    found = await client.agents(agent_type=wanted.agent_type, status=wanted.status, query=wanted.asked)
    beside = await around(client, Spending(client))
    rows = sorted(msgspec.to_builtins(found), key=lambda row: urgency(row, beside))
    now = SystemClock().now_ms()
    typer.echo(summary(rows, beside))
    if rows:
        made = [cells(row, TOP_COLUMNS, now_ms=now, beside=beside) for row in rows]
        typer.echo("\n".join(table(TOP_COLUMNS, made, on=screen())))


class Top:
    """Draws at its own pace: what comes in between is shown in the next frame, keys and a new size at once."""

    def __init__(self, client: Client, wanted: Selection, every: float) -> None:
        self._client = client
        self._wanted = wanted
        self._every = every
        self._spending: Spending = Spending(client)
        self._beside: Beside | None = None
        self._clock = SystemClock()
        self._feed: FleetFeed = client.follow(agent_type=wanted.agent_type, tag=wanted.tag)
        self._view: TopView = TopView(place=client.url)
        self._rate: Rate = Rate()
        self._stirred = asyncio.Event()
        self._leaving = False

    async def run(self) -> None:
        self._beside = await around(self._client, self._spending)  # without it, an agent's own word would be shown
        with Terminal(on_key=self._press, on_resize=self._stirred.set, on_stop=self._leave) as terminal:
            following = asyncio.create_task(self._follow(), name="feed")
            looking = asyncio.create_task(self._look(), name="turns")
            try:
                while not self._leaving:
                    self._draw(terminal)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._every):
                            await self._stirred.wait()
                    self._stirred.clear()
                    if following.done():
                        following.result()
            finally:
                following.cancel()
                looking.cancel()
                await asyncio.wait({following, looking})

    async def _follow(self) -> None:
        known = False
        async for change in self._feed:
            beats = sum(1 for event in change.events if event["event"] == "heartbeat")
            self._rate.add(beats, self._clock.monotonic())
            if change.snapshot or not change.connected or not known:
                known = True
                self._stirred.set()

    async def _look(self) -> None:
        """Turns, questions and spending are not in the feed; they are read now and then."""
        while True:
            await asyncio.sleep(max(self._every, LOOK_SECONDS))
            with contextlib.suppress(HomeostatError):  # the feed says what is wrong with the connection
                self._beside = await around(self._client, self._spending)

    def _press(self, key: str) -> None:
        self._leaving = self._leaving or not self._view.press(key)
        self._stirred.set()

    def _leave(self) -> None:
        self._leaving = True
        self._stirred.set()

    def _draw(self, terminal: Terminal) -> None:
        on, height = terminal.measure()
        rows = [row for row in self._feed.agents.values() if self._wanted.covers(row)]
        problem = "" if self._feed.connected else self._feed.problem or ("connecting" if not rows else "")
        self._view.beside = self._beside
        rate = self._rate.per_second(self._clock.monotonic())
        terminal.show(
            self._view.frame(rows, on=on, height=height, now_ms=self._clock.now_ms(), rate=rate, problem=problem)
        )
