"""A real container engine: agents stay paused when it is killed, and nothing is claimed while it is away."""

import asyncio
from collections.abc import AsyncGenerator, Iterator

import pytest

from homeostat.adapters.enforcers.container import ContainerEnforcer, DockerEngine
from homeostat.adapters.remedies.container import ContainerRemedies
from homeostat.adapters.stores.sqlite import SqliteEnforcement, SqliteEngine
from homeostat.core.clock import SystemClock
from homeostat.core.enforcement_errors import ContainerUnknown
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Effect
from homeostat.core.records.immune import Applied, RemedyAction, Stance
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.enforcement import Enforcement
from homeostat.immune.engines import EngineWatch
from homeostat.testing.clock import ManualClock
from homeostat.testing.docker import DockerServer, EngineServer, PodmanServer
from homeostat.testing.holding import ANN, Alerts, Frugal, patient
from homeostat.testing.packages import STEP_SECONDS, ProgramMissing

pytestmark = pytest.mark.timeout(2 * STEP_SECONDS + 120)  # where it is missing the first of them may install an engine

BOB = (ProjectId("default"), AgentId("bob"))


@pytest.fixture(scope="module", params=[DockerServer, PodmanServer], ids=["docker", "podman"])
def docker(request: pytest.FixtureRequest) -> Iterator[EngineServer]:
    """A real engine; Podman's speaks the same language."""
    kind: type[EngineServer] = request.param
    try:
        kind.path()
    except ProgramMissing as why:
        pytest.skip(f"no container engine: {why}")
    with kind() as server:
        yield server


@pytest.fixture
async def enforcer(docker: EngineServer) -> AsyncGenerator[ContainerEnforcer]:
    engine = DockerEngine(docker.socket)
    yield ContainerEnforcer(engine)
    await engine.close()
    docker.clear()


class Ward:
    """An enforcement over a real engine."""

    def __init__(self, store: SqliteEnforcement, enforcer: ContainerEnforcer) -> None:
        self.store = store
        self.enforcer = enforcer
        self.engine = enforcer.engine
        self.alerts = Alerts()
        self.clock = ManualClock()
        self.enforcement = Enforcement(
            store=store, enforcers=[enforcer], spending=Frugal(), clock=self.clock, tell=self.alerts
        )


@pytest.fixture
async def ward(enforcer: ContainerEnforcer) -> AsyncGenerator[Ward]:
    database = SqliteEngine(None)
    await database.open()
    yield Ward(SqliteEnforcement(database), enforcer)
    await database.close()


async def test_a_container_is_paused_outlives_its_engine_and_is_let_go(ward: Ward, docker: EngineServer) -> None:
    store, enforcement = ward.store, ward.enforcement
    ours, other = docker.still(homeostat_agent="ann"), docker.still(homeostat_agent="bob")
    docker.ask("POST", f"/containers/{docker.still(homeostat_agent='ann')}/pause")  # somebody else did this
    namesake = docker.still(homeostat_agent="ann", homeostat_project="another")
    await enforcement.bring(patient(Phase.QUARANTINED))
    assert [docker.state(one) for one in (ours, other, namesake)] == ["paused", "running", "running"]
    assert (await enforcement.receipt(ANN)).effect is Effect.ENFORCED

    docker.kill()
    await enforcement.reconcile([patient(Phase.QUARANTINED)])
    (hold,) = await store.holds_of(ANN)
    assert hold.effect is Effect.UNVERIFIED, "an engine that is away proves nothing"
    assert "cannot be reached" in hold.note
    ward.clock.advance(2 * Doctrine().reconcile_seconds)  # it is back between two looks
    docker.start()
    brought_back = docker.state(ours) == "running"
    assert brought_back is docker.brings_back, "as its restart policy wants, where the engine has it in hand"
    await enforcement.reconcile([patient(Phase.QUARANTINED)])
    assert [docker.state(ours), docker.state(other)] == ["paused", "running"]
    (hold,) = await store.holds_of(ANN)
    assert (hold.effect, hold.gaps_count) == (Effect.ENFORCED, 1)
    assert hold.gaps[0].until_ms is not None
    assert hold.gaps[0].until_ms - hold.gaps[0].from_ms <= 5_000

    await enforcement.bring(patient(Phase.PROBATION))
    assert docker.state(ours) == "running"
    await enforcement.bring(patient(Phase.QUARANTINED, killed=True))
    assert docker.state(ours) == "exited"
    assert (await enforcement.receipt(ANN)).effect is Effect.ENFORCED


async def test_a_container_that_begins_again_and_again_is_stopped_and_not_claimed_to_be_paused(
    ward: Ward, docker: EngineServer
) -> None:
    if not docker.brings_back:
        pytest.skip("Podman's service begins nothing again by itself")
    ours = docker.still(homeostat_agent="ann", seconds="none, which is an error")
    for _ in range(3_000):
        if docker.state(ours) == "restarting":
            break
        await asyncio.sleep(0.01)
    reading = await ward.enforcer.held(ANN, "")
    assert reading.stance is Stance.OPEN, "between two beginnings it has not ended"
    await ward.enforcement.bring(patient(Phase.QUARANTINED))
    for _ in range(3):  # whichever state it was met in
        await ward.enforcement.reconcile([patient(Phase.QUARANTINED)])
    assert docker.state(ours) in {"exited", "paused"}
    begun = docker.ask("GET", f"/containers/{ours}/json")["RestartCount"]
    await asyncio.sleep(1)
    assert docker.ask("GET", f"/containers/{ours}/json")["RestartCount"] == begun
    await ward.enforcement.bring(patient(Phase.PROBATION))
    assert docker.state(ours) in {"running", "restarting"}


async def test_a_container_that_was_killed_is_started_by_its_release(ward: Ward, docker: EngineServer) -> None:
    ours, resting = docker.still(homeostat_agent="ann"), docker.still(homeostat_agent="ann")
    docker.ask("POST", f"/containers/{resting}/stop")  # it did not run before, and will not after
    for phase in (Phase.QUARANTINED, Phase.EXHAUSTED):
        await ward.enforcement.bring(patient(phase))
        await ward.enforcement.bring(patient(phase, killed=True))
        assert docker.state(ours) == "exited"
        assert (await ward.enforcement.receipt(ANN)).effect is Effect.ENFORCED
        await ward.enforcement.bring(patient(Phase.PROBATION))
        assert [docker.state(ours), docker.state(resting)] == ["running", "exited"]
        assert (await ward.enforcement.receipt(ANN)).effect is Effect.ENFORCED
    assert ward.alerts.heard == []


async def test_a_container_that_stays_killed_is_ended_again_when_its_engine_brings_it_back(
    ward: Ward, docker: EngineServer
) -> None:
    ours = docker.still(homeostat_agent="ann")
    await ward.enforcement.bring(patient(Phase.QUARANTINED, killed=True))
    docker.ask("POST", f"/containers/{ours}/start")  # as an engine that begins anew does
    await ward.enforcement.reconcile([patient(Phase.QUARANTINED, killed=True)])
    assert docker.state(ours) == "exited"
    (hold,) = await ward.store.holds_of(ANN)
    assert (hold.effect, hold.gaps_count) == (Effect.ENFORCED, 1)


async def test_a_container_that_was_found_dead_is_started_by_its_release(ward: Ward, docker: EngineServer) -> None:
    ours = docker.still(homeostat_agent="ann")
    await ward.enforcement.bring(patient(Phase.QUARANTINED))
    docker.ask("POST", f"/containers/{ours}/unpause")
    docker.ask("POST", f"/containers/{ours}/stop?t=0")
    await ward.enforcement.reconcile([patient(Phase.QUARANTINED)])
    assert (await ward.enforcement.receipt(ANN)).effect is Effect.UNVERIFIED, "there is nobody left to hold"
    await ward.enforcement.bring(patient(Phase.PROBATION))
    assert docker.state(ours) == "running"
    assert (await ward.enforcement.receipt(ANN)).effect is Effect.ENFORCED


async def test_a_container_that_was_removed_cannot_be_started_and_that_is_said(
    ward: Ward, docker: EngineServer
) -> None:
    ours = docker.still(homeostat_agent="ann")
    await ward.enforcement.bring(patient(Phase.QUARANTINED))
    docker.ask("DELETE", f"/containers/{ours}?force=1")
    await ward.enforcement.bring(patient(Phase.PROBATION))
    receipt = await ward.enforcement.receipt(ANN)
    assert receipt.effect is Effect.FAILED
    assert f"container {ours[:12]} was removed and has to be made again" in receipt.holds[0].note
    docker.still(homeostat_agent="ann")
    await ward.enforcement.reconcile([patient(Phase.PROBATION)])
    assert (await ward.enforcement.receipt(ANN)).effect is Effect.ENFORCED, "another one took its place"


async def test_nothing_is_claimed_of_anybody_while_the_engine_is_away(ward: Ward, docker: EngineServer) -> None:
    """Not even of somebody whom nobody ever saw as a container."""
    ours, told = docker.still(homeostat_agent="ann"), Alerts()
    watch = EngineWatch([ward.engine], clock=SystemClock(), tell=lambda title, said: told(ANN, title, said))
    await watch.look(local_only=True)
    docker.kill()
    for _ in range(2):
        await ward.enforcement.reconcile([patient(Phase.QUARANTINED), patient(Phase.QUARANTINED, BOB)])
        await watch.look(local_only=True)
    effects = {hold.agent_id: hold.effect for hold in await ward.store.holds()}
    assert effects == {ANN[1]: Effect.UNVERIFIED, BOB[1]: Effect.UNVERIFIED}
    assert sorted(str(one["agent_id"]) for one in ward.alerts.heard) == ["ann", "bob"], "each is told once"
    docker.start()
    for _ in range(2):
        await ward.enforcement.reconcile([patient(Phase.QUARANTINED), patient(Phase.QUARANTINED, BOB)])
        await watch.look(local_only=True)
    assert docker.state(ours) == "paused"
    assert [(hold.agent_id, hold.effect) for hold in await ward.store.holds()] == [(ANN[1], Effect.ENFORCED)]
    assert [one["state"] for one in told.heard] == ["lost", "back"]


async def test_whoever_is_said_to_be_a_container_and_is_none_is_not_held(ward: Ward) -> None:
    ward.enforcement.enforcers = (ContainerEnforcer(ward.engine, expects=ANN.__eq__),)
    await ward.enforcement.bring(patient(Phase.QUARANTINED))
    (hold,) = await ward.store.holds_of(ANN)
    assert (hold.effect, "none is labelled homeostat.agent=ann" in hold.note) == (Effect.UNVERIFIED, True)
    assert len(ward.alerts.heard) == 1


async def test_an_unknown_container_is_said_to_be_unknown(enforcer: ContainerEnforcer) -> None:
    assert not await enforcer.reaches(ANN)
    with pytest.raises(ContainerUnknown, match="labelled"):
        await enforcer.held(ANN, "")


async def test_a_container_is_begun_anew_as_a_remedy(docker: EngineServer, enforcer: ContainerEnforcer) -> None:
    ours = docker.still(homeostat_agent="ann")
    before = docker.ask("GET", f"/containers/{ours}/json")["State"]["StartedAt"]
    remedies = ContainerRemedies(engine=enforcer.engine, cluster=None, clock=SystemClock())
    applied, note = await remedies.apply(ANN, RemedyAction.RESET_AGENT, "it loops")
    assert applied is Applied.APPLIED, note
    assert docker.ask("GET", f"/containers/{ours}/json")["State"]["StartedAt"] != before
    applied, note = await remedies.apply(ANN, RemedyAction.RESET_MEMORY, "it loops")
    assert applied is Applied.NOT_APPLICABLE


async def test_who_was_paused_before_is_not_woken(docker: EngineServer, enforcer: ContainerEnforcer) -> None:
    ours = docker.still(homeostat_agent="ann")
    docker.ask("POST", f"/containers/{ours}/pause")
    before = await enforcer.observe(ANN, "")
    await enforcer.hold(ANN, Stance.CLOSED, "", before)
    await enforcer.hold(ANN, Stance.OPEN, "", before)
    assert docker.state(ours) == "paused"
