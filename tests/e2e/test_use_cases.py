"""The promises of the immune system, each on a real kernel, a real gateway and a model with faults it cannot see."""

from dataclasses import replace

from homeostat.adapters.upstreams.simulated.faults import Faults
from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Applied, Diagnosis, RemedyAction
from homeostat.core.records.turn import AgentKey
from homeostat.testing.clinic import DOCTRINE, Clinic, clinic

P = Phase
FLEET = [f"agent-{number}" for number in range(10)]
SICK = FLEET[0]
TALKATIVE = Faults(tokens=40)


class Practice:
    """Remedies that end the fault of an agent when the right one is given."""

    def __init__(self, cures: RemedyAction) -> None:
        self.cures = cures
        self.given: list[RemedyAction] = []
        self.clinic: Clinic | None = None

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        assert self.clinic is not None
        self.given.append(action)
        if action is self.cures:
            self.clinic.faults.pop(key[1], None)
        return Applied.APPLIED, "given"

    async def undo(self, key: AgentKey) -> None:
        del key


async def until(one: Clinic, *phases: Phase, name: str = SICK, names: list[str] = FLEET, samples: int = 60) -> None:
    """Let the fleet go on until an agent is in one of these phases."""
    for _ in range(samples):
        if one.phase(name) in phases:
            return
        await one.sample(*names)
    raise AssertionError(f"{name} is {one.phase(name)}: {await one.path(name)}")


def only(one: Clinic, name: str = SICK) -> bool:
    """Whether everybody but one agent is left alone."""
    return all(one.phase(other) in (P.HEALTHY, P.SUSPECTED) for other in FLEET if other != name)


async def test_uc_1_an_anomaly_that_goes_away_isolates_nobody() -> None:
    async with clinic(doctrine=replace(DOCTRINE, severe_sigma=99.0)) as one:
        await one.train(*FLEET)
        one.faults[SICK] = TALKATIVE
        await until(one, P.SUSPECTED)
        one.faults.clear()
        await until(one, P.HEALTHY)
        assert await one.path(SICK) == [P.HEALTHY, P.SUSPECTED, P.HEALTHY]
        assert await one.incidents() == []
        assert (await one.call(SICK)).status == 200


async def test_uc_2_a_standard_anomaly_is_healed_and_the_agent_recovers() -> None:
    practice = Practice(RemedyAction.RESET_MEMORY)
    mild = replace(DOCTRINE, approval_sigma=99.0, severe_sigma=99.0)
    async with clinic(remedies=practice, doctrine=mild) as one:
        practice.clinic = one
        await one.train(*FLEET)
        one.faults[SICK] = TALKATIVE
        await until(one, P.QUARANTINED, P.HEALING, P.PROBATION)
        await until(one, P.HEALTHY)
        path = await one.path(SICK)
        assert path[-6:] == [P.SUSPECTED, P.DRAINING, P.QUARANTINED, P.HEALING, P.PROBATION, P.HEALTHY]
        assert practice.given == [RemedyAction.RESET_MEMORY]
        (incident,) = await one.incidents(SICK)
        assert incident.hypotheses[0].diagnosis is Diagnosis.PROMPT_DRIFT
        assert incident.hypotheses[0].because
        assert incident.outcome == "cured by reset_memory"
        assert incident.treatments[0].cured
        assert incident.lost == 0
        assert only(one)
