"""One suite for every keeper of what the immune system knows; a wrong one is found out."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from homeostat.adapters.stores.sqlite import SqliteImmune
from homeostat.app.stores import enforcement_store, immune_store
from homeostat.core.clock import Millis
from homeostat.core.ports.immune import ImmuneStore
from homeostat.core.records.enforcement import Verb
from homeostat.core.records.immune import Chart, Feedback, Lesson, Veto
from homeostat.testing.suites import immune_store as suite
from homeostat.testing.suites.enforcement_store import hold
from tests.conformance.engines import Engine, found_out


@pytest.fixture
def keeper(engine: Engine) -> ImmuneStore:
    return immune_store(engine)


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
async def test_keepers(keeper: ImmuneStore, check: suite.Check) -> None:
    await check(keeper)


async def test_what_is_wanted_of_a_patient_is_written_with_it_or_not_at_all(engine: Engine) -> None:
    keeper, holds = immune_store(engine), enforcement_store(engine)
    wanted = hold()
    assert await keeper.save(Chart(patients=(suite.patient(),), holds=(wanted,)))
    assert await holds.holds() == [wanted]
    assert not await keeper.save(Chart(patients=(suite.patient(),), holds=(replace(wanted, verb=Verb.RELEASE),)))
    assert await holds.holds() == [wanted], "somebody else has moved it"


class Trusting(SqliteImmune):
    """Lets everybody decide."""

    async def hold(self, holder: str, now: Millis, until: Millis) -> bool:
        await super().hold(holder, now, until)
        return True


class Forgetful(SqliteImmune):
    """Learns nothing."""

    async def save(self, chart: Chart) -> bool:
        return await super().save(replace(chart, lessons=()))


class Adding(SqliteImmune):
    """Counts what it is told as if it had never heard of it."""

    async def absorb(self, *, lessons: Sequence[Lesson], feedback: Sequence[Feedback], vetoes: Sequence[Veto]) -> None:
        await self.save(Chart(lessons=tuple(lessons)))
        await super().absorb(lessons=(), feedback=feedback, vetoes=vetoes)


class Sweeping(SqliteImmune):
    """Takes one agent's veto for everybody's."""

    async def put_veto(self, veto: Veto) -> Veto:
        return await super().put_veto(replace(veto, agent_id=None))


@pytest.mark.parametrize("wrong", [Trusting, Forgetful, Adding, Sweeping])
async def test_a_wrong_keeper_is_found_out(wrong: type[SqliteImmune]) -> None:
    assert await found_out(suite.CHECKS, wrong)
