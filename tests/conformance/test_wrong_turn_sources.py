"""The suite for sources of turns finds those that are wrong, each in one way."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from homeostat.app.assemble import System, assemble
from homeostat.app.local_turns import LocalSession, LocalTurns
from homeostat.app.settings import Settings
from homeostat.core.codec import Json
from homeostat.core.errors import HomeostatError, StaleEpoch
from homeostat.core.ids import CardId, ProjectId, Scope
from homeostat.core.ports.turns import OnRevoke
from homeostat.core.records.card import Card, CardDraft
from homeostat.core.records.turn import AgentKey, Grant, ToolCall
from homeostat.core.records.view import Hydration
from homeostat.core.records.work import Ask, Delivered, Suspended
from homeostat.kernel.commands import Idempotency
from homeostat.kernel.kernel import Kernel
from homeostat.testing.suites import turn_endings
from homeostat.testing.suites import turn_source as suite

LEASE_SECONDS = 1.0


class Wrong(LocalTurns):
    """A local source whose sessions are of another kind."""

    kind: type[LocalSession] = LocalSession

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.kernel = kernel

    async def open(self, hosted: Collection[AgentKey], on_revoke: OnRevoke, **options: Any) -> LocalSession:
        session = self.kind(self.kernel, on_revoke)
        await session.begin(hosted, options.get("worker_id"))
        return session


class ForgetsSteps(LocalSession):
    async def step(self, grant: Grant, name: str, outcome: Json) -> None: ...


class KeepsTheLastOutcome(LocalSession):
    async def hydrate(self, grant: Grant) -> Hydration:
        found = await super().hydrate(grant)
        return Hydration({name: Json('"a second outcome"') for name in found.steps}, found.context, found.output)


class IgnoresFences(LocalSession):
    async def deliver(self, grant: Grant, **end: Any) -> Delivered:
        with suppress(StaleEpoch):
            return await super().deliver(grant, **end)
        return Delivered(CardId("card"), None)


class IsDeaf(LocalSession):
    def __init__(self, kernel: Kernel, on_revoke: OnRevoke) -> None:
        super().__init__(kernel, lambda fence: None)  # noqa: ARG005


class DropsCancelledClaims(LocalSession):
    async def claim(self, limit: int, seconds: float) -> list[Grant]:
        grants = await super().claim(limit, seconds)
        for _ in range(200):
            await asyncio.sleep(0)
        return grants


class DoesNotWait(LocalSession):
    async def claim(self, limit: int, seconds: float) -> list[Grant]:
        return await super().claim(limit, 0.0)


class HostsEverybody(LocalSession):
    async def begin(self, hosted: Collection[AgentKey], worker_id: Any) -> None:
        others = [(project, type(agent)(name)) for project, agent in hosted for name in ("ann", "bob")]
        await super().begin([*hosted, *others], worker_id)


class HidesContext(LocalSession):
    async def hydrate(self, grant: Grant) -> Hydration:
        found = await super().hydrate(grant)
        return Hydration(found.steps, (), found.output)


class FindsAnyCard(LocalSession):
    async def card(self, grant: Grant, card_id: CardId) -> Card | None:
        turn = grant.turn
        invented = Card(turn.project, Scope("s"), 1, "note", Json("1"), "d", None, turn.created_at_ms)
        return await super().card(grant, card_id) or invented


class SuspendsWithoutCards(LocalSession):
    async def suspend(
        self,
        grant: Grant,
        calls: tuple[ToolCall, ...] = (),
        *,
        asks: tuple[Ask, ...] = (),
        cards: tuple[CardDraft, ...] = (),
        idempotency: Idempotency | None = None,
    ) -> Suspended:
        suspended = await super().suspend(grant, calls, asks=asks, cards=cards, idempotency=idempotency)
        return Suspended(suspended.waits, ready=True)


class BringsNothingAlong(LocalSession):
    async def deliver(self, grant: Grant, **end: Any) -> Delivered:
        end["claim_next"] = False
        return await super().deliver(grant, **end)


class LosesWhatItReleases(LocalSession):
    async def release(self, grant: Grant, *, idempotency: Idempotency | None = None) -> None: ...


class SwallowsChunks(LocalSession):
    async def emit(self, grant: Grant, chunk: Json) -> None: ...


class NeverBeats(LocalSession):
    async def renew(self, seconds: float = 0.0, **_: Any) -> None:
        await asyncio.sleep(seconds)


class KeepsItsOldBoxes(LocalSession):
    async def swap_boxes(self, grant: Grant, **_: Any) -> None: ...


class ForgetsToLeave(LocalSession):
    async def claim(self, limit: int, seconds: float) -> list[Grant]:
        taken = asyncio.ensure_future(super().claim(limit, seconds))
        return await asyncio.shield(taken)

    async def close(self, *, lost: bool = True) -> None:
        await super().close(lost=lost)


WRONG: tuple[tuple[type[LocalSession], suite.Check], ...] = (
    (ForgetsSteps, suite.steps_and_cards_outlive_the_worker_that_wrote_them),
    (KeepsTheLastOutcome, suite.steps_and_cards_outlive_the_worker_that_wrote_them),
    (IgnoresFences, turn_endings.a_repeated_delivery_is_the_same_and_another_one_is_stale),
    (IsDeaf, turn_endings.a_stopped_turn_is_revoked_at_once),
    (IsDeaf, turn_endings.a_preempted_turn_is_revoked_and_granted_anew),
    (DropsCancelledClaims, suite.a_cancelled_claim_loses_no_turn),
    (DoesNotWait, suite.a_waiting_claim_is_answered_when_a_message_comes),
    (HostsEverybody, suite.only_hosted_agents_are_granted),
    (HidesContext, suite.context_is_there_from_the_beginning),
    (FindsAnyCard, suite.a_card_that_does_not_exist_is_none),
    (SuspendsWithoutCards, suite.a_suspended_turn_comes_back_with_its_results),
    (BringsNothingAlong, turn_endings.a_delivery_ends_the_turn_and_brings_the_next),
    (LosesWhatItReleases, turn_endings.a_released_turn_costs_no_attempt),
    (SwallowsChunks, suite.a_chunk_reaches_whoever_listens),
    (NeverBeats, turn_endings.a_worker_that_renews_keeps_its_turn),
    (KeepsItsOldBoxes, suite.a_turn_can_be_pointed_at_other_boxes),
    (ForgetsToLeave, turn_endings.a_leaving_worker_hands_back_what_it_had_not_collected),
    (ForgetsToLeave, turn_endings.a_leaving_worker_hands_back_what_it_holds),
)


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with assemble(Settings(data_dir=tmp_path, lease_seconds=LEASE_SECONDS)) as system:
        yield system


@pytest.mark.parametrize(("kind", "check"), WRONG, ids=lambda thing: thing.__name__)
async def test_a_wrong_source_is_found_out(
    kind: type[LocalSession], check: suite.Check, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "PATIENCE_SECONDS", 2 * LEASE_SECONDS)
    monkeypatch.setattr(Wrong, "kind", kind)
    world = suite.World(Wrong(system.kernel), system.kernel, ProjectId("p"))
    with pytest.raises((AssertionError, TimeoutError, HomeostatError)):
        await check(world)
    await world.close()
