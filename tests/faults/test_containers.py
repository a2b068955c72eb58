"""A real container engine: agents stay paused when it is killed, and nothing is claimed while it is away."""

from collections.abc import AsyncGenerator, Iterator

import pytest

from homeostat.adapters.enforcers.container import ContainerEnforcer, DockerEngine
from homeostat.adapters.remedies.container import ContainerRemedies
from homeostat.adapters.stores.sqlite import SqliteEnforcement, SqliteEngine
from homeostat.core.clock import Millis, SystemClock
from homeostat.core.enforcement_errors import ContainerUnknown
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Effect, Spent
from homeostat.core.records.immune import Applied, Patient, RemedyAction, Stance
from homeostat.core.records.turn import AgentKey
from homeostat.immune.enforcement import Enforcement
from homeostat.testing.docker import DockerServer, dockerd
from homeostat.testing.packages import STEP_SECONDS, ProgramMissing

pytestmark = pytest.mark.timeout(2 * STEP_SECONDS + 120)  # where it is missing the first of them may install an engine

ANN: AgentKey = (ProjectId("default"), AgentId("ann"))


class Purse:
    """Nobody spends anything."""

    async def spent(self, agent: AgentKey, since: Millis) -> Spent:
        del agent, since
        return Spent(refused=0, answered=0, tokens=0)


@pytest.fixture(scope="module")
def docker() -> Iterator[DockerServer]:
    try:
        dockerd()
    except ProgramMissing as why:
        pytest.skip(f"no container engine: {why}")
    with DockerServer() as server:
        yield server


@pytest.fixture
async def enforcer(docker: DockerServer) -> AsyncGenerator[ContainerEnforcer]:
    engine = DockerEngine(docker.socket)
    yield ContainerEnforcer(engine)
    await engine.close()
    for one in docker.ask("GET", "/containers/json?all=1"):
        docker.ask("DELETE", f"/containers/{one['Id']}?force=1")


def patient(phase: Phase, *, killed: bool = False) -> Patient:
    return Patient(
        project=ANN[0], agent_id=ANN[1], version=1, phase=phase, since_ms=Millis(1), cause="it loops", killed=killed
    )


async def test_a_container_is_paused_outlives_its_engine_and_is_let_go(
    docker: DockerServer, enforcer: ContainerEnforcer
) -> None:
    database = SqliteEngine(None)
    await database.open()
    store = SqliteEnforcement(database)
    enforcement = Enforcement(store=store, enforcers=[enforcer], spending=Purse(), clock=SystemClock())
    ours, other = docker.still(homeostat_agent="ann"), docker.still(homeostat_agent="bob")
    docker.ask("POST", f"/containers/{docker.still(homeostat_agent='ann')}/pause")  # somebody else did this
    await enforcement.bring(patient(Phase.QUARANTINED))
    assert [docker.state(ours), docker.state(other)] == ["paused", "running"]
    assert (await enforcement.receipt(ANN)).effect is Effect.ENFORCED

    docker.kill()
    await enforcement.reconcile([patient(Phase.QUARANTINED)])
    (hold,) = await store.holds_of(ANN)
    assert hold.effect is Effect.UNVERIFIED, "an engine that is away proves nothing"
    assert "cannot be reached" in hold.note
    docker.start()
    assert docker.state(ours) == "running", "the engine has brought it back, as its restart policy wants"
    await enforcement.reconcile([patient(Phase.QUARANTINED)])
    assert [docker.state(ours), docker.state(other)] == ["paused", "running"]
    (hold,) = await store.holds_of(ANN)
    assert (hold.effect, hold.gaps_count) == (Effect.ENFORCED, 1)
    assert hold.gaps[0].until_ms is not None

    await enforcement.bring(patient(Phase.PROBATION))
    assert docker.state(ours) == "running"
    await enforcement.bring(patient(Phase.QUARANTINED, killed=True))
    assert docker.state(ours) == "exited"
    assert (await enforcement.receipt(ANN)).effect is Effect.ENFORCED
    await database.close()


async def test_an_unknown_container_is_said_to_be_unknown(enforcer: ContainerEnforcer) -> None:
    assert not await enforcer.reaches(ANN)
    with pytest.raises(ContainerUnknown, match="labelled"):
        await enforcer.held(ANN)


async def test_a_container_is_begun_anew_as_a_remedy(docker: DockerServer, enforcer: ContainerEnforcer) -> None:
    ours = docker.still(homeostat_agent="ann")
    before = docker.ask("GET", f"/containers/{ours}/json")["State"]["StartedAt"]
    remedies = ContainerRemedies(engine=enforcer.engine, cluster=None, clock=SystemClock())
    applied, note = await remedies.apply(ANN, RemedyAction.RESET_AGENT, "it loops")
    assert applied is Applied.APPLIED, note
    assert docker.ask("GET", f"/containers/{ours}/json")["State"]["StartedAt"] != before
    applied, note = await remedies.apply(ANN, RemedyAction.RESET_MEMORY, "it loops")
    assert applied is Applied.NOT_APPLICABLE


async def test_who_was_paused_before_is_not_woken(docker: DockerServer, enforcer: ContainerEnforcer) -> None:
    ours = docker.still(homeostat_agent="ann")
    docker.ask("POST", f"/containers/{ours}/pause")
    before = await enforcer.observe(ANN, "")
    await enforcer.hold(ANN, Stance.CLOSED, "", before)
    await enforcer.hold(ANN, Stance.OPEN, "", before)
    assert docker.state(ours) == "paused"
