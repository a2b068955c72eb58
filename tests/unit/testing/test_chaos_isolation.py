"""Who is isolated is not served, and who is released is: a campaign can see that neither is so."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from homeostat.core.enforcement_errors import ReceiptUnknown
from homeostat.core.errors import IllegalTransition, ServerUnreachable
from homeostat.core.ids import Chance
from homeostat.testing.chaos.isolation import Isolated
from homeostat.testing.chaos.people import Answered, People
from homeostat.testing.clock import ManualClock
from homeostat.testing.parties import Journal

INF = float("inf")
SERVED = "always_the_isolated_are_not_served"
NEVER_SHUT = "finally_the_isolated_are_not_served"
NEVER_OPEN = "finally_the_released_are_served"


class Gates:
    """The servers and gateways that an agent is isolated and released at, which keep their word or do not."""

    def __init__(self, people: People, clock: ManualClock) -> None:
        self._people, self._clock = people, clock
        self.verb, self.since = "release", -INF
        self.enforced_seconds, self.open_seconds = 0.1, 0.1
        self.leaks_after, self.opens_after = INF, INF
        """How long after it was isolated a gateway answers all the same, or it is let out though nobody asks for it.

        The latter when it was isolated for the last time.
        """
        self.silent = 0
        """How many releases nobody hears the end of."""
        self.rounds = 1

    async def __aexit__(self, *_: object) -> None: ...

    @property
    def _passed(self) -> float:
        return self._clock.monotonic() - self.since

    def _order(self, verb: str) -> None:
        self.verb, self.since = verb, self._clock.monotonic()
        self.rounds -= verb == "release"
        if not self.rounds:
            self._people.over.set()

    def _isolated(self) -> bool:
        if self.verb == "quarantine" and self.rounds == 1 and self._passed >= self.opens_after:
            self._order("release")
        return self.verb == "quarantine"

    async def enqueue(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(turn_id="turn")

    async def post_json(self, path: str, _: object) -> str:
        verb = path.rpartition("/")[2]
        if verb == "release" and self.silent:
            self.silent -= 1
            raise ServerUnreachable(url="", problem="it stands still")
        if self.verb == verb:
            raise IllegalTransition(machine="phase", state=verb, event=verb)
        self._order(verb)
        return "done"

    async def read_json(self, path: str) -> dict[str, Any]:
        isolated = self._isolated()
        if self.since == -INF:
            raise ReceiptUnknown(agent_id="patient")
        effect = "enforced" if self._passed >= self.enforced_seconds else "unverified"
        receipt = {"verb": self.verb, "effect": effect, "asked_at": str(self.since)}
        if path.endswith("/receipt"):
            return receipt
        return {"phase": "quarantined" if isolated else "healthy", "receipt": receipt}

    async def call(self, *_: object) -> Answered:
        if self._isolated():
            held = self._passed < self.leaks_after
            return Answered(503, blocked=True, gateway="one") if held else Answered(200, gateway="other")
        return Answered(200 if self._passed >= self.open_seconds else 503, gateway="one")


@pytest.fixture
async def people() -> AsyncGenerator[People]:
    async with People([], [], Chance(1)) as made:
        yield made


@pytest.fixture
def gates(people: People, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Gates:
    made: Any = Gates(people, clock)
    people.clients.append(made)
    monkeypatch.setattr(people, "call", made.call)
    return made


async def live(people: People, clock: ManualClock, folder: Path) -> Isolated:
    one = Isolated(people, "patient", Journal(folder / "told-http.jsonl"), clock)
    async with asyncio.timeout(10):
        await one.live("key")
    return one


def promises(people: People) -> set[str]:
    return {words.partition(":")[0] for words in people.violations}


async def test_who_is_isolated_and_released_in_time_breaks_nothing(
    people: People, gates: Gates, clock: ManualClock, tmp_path: Path
) -> None:
    gates.rounds, gates.enforced_seconds, gates.open_seconds = 3, 50.0, 50.0
    one = await live(people, clock, tmp_path)
    assert people.violations == []
    assert people.counts["quarantines"] == len(one.spells) == 3
    assert people.counts["calls of an isolated agent refused"] > 3
    assert people.counts["releases"] >= 3
    assert all(spell.enforced < (spell.shut or 0) < spell.until for spell in one.spells)


async def test_a_gateway_that_answers_an_isolated_agent_is_found_out(
    people: People, gates: Gates, clock: ManualClock, tmp_path: Path
) -> None:
    gates.leaks_after = 1.0
    await live(people, clock, tmp_path)
    assert promises(people) == {SERVED}
    assert "other answered, asked " in people.violations[0]


async def test_a_gateway_that_has_no_store_to_ask_may_answer(
    people: People, gates: Gates, clock: ManualClock, tmp_path: Path
) -> None:
    gates.leaks_after = 1.0
    people.store_in_trouble = lambda: True
    await live(people, clock, tmp_path)
    assert people.violations == []
    assert people.counts["calls of an isolated agent answered without a store to ask"] > 0


@pytest.mark.parametrize(("unheard", "broken"), [(1, set[str]()), (0, {SERVED})])
async def test_only_a_release_that_nobody_heard_the_end_of_lets_an_agent_out_late(
    *, unheard: int, broken: set[str], people: People, gates: Gates, clock: ManualClock, tmp_path: Path
) -> None:
    """That is so too when all is over by then, and nobody insists on answers any more."""
    gates.rounds, gates.silent, gates.opens_after = 2, unheard, 1.0
    await live(people, clock, tmp_path)
    assert promises(people) == broken
    assert people.counts["releases that came late"] == unheard


async def test_a_quarantine_that_is_never_enforced_is_found_out(
    people: People, gates: Gates, clock: ManualClock, tmp_path: Path
) -> None:
    gates.enforced_seconds = INF
    one = await live(people, clock, tmp_path)
    assert promises(people) == {NEVER_SHUT}
    assert "'effect': 'unverified'" in people.violations[0]
    assert one.spells == []


async def test_an_agent_that_was_released_and_is_never_served_is_found_out(
    people: People, gates: Gates, clock: ManualClock, tmp_path: Path
) -> None:
    gates.open_seconds = INF
    await live(people, clock, tmp_path)
    assert promises(people) == {NEVER_OPEN}
    assert "status=503" in people.violations[0]
