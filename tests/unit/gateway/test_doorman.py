"""For how long a gateway believes what it was told of a key."""

from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.limits import KEY_STALE_SECONDS
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.doorman import Doorman
from homeostat.testing.clock import ManualClock

HOLDER = (ProjectId("p"), AgentId("a"))


class SlowRegister:
    """Its answer lies on the line for a while, as when the gateway stands still."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    async def holder(self, key_digest: str) -> AgentKey | None:
        del key_digest
        self._clock.advance(self._seconds)
        return HOLDER

    def left(self, agent: AgentKey) -> bool:
        del agent
        return False


async def test_a_key_is_believed_from_when_the_register_was_asked() -> None:
    clock = ManualClock()
    register = SlowRegister(clock, KEY_STALE_SECONDS + 1)
    doorman = Doorman(keyring=register, clock=clock, project=ProjectId("p"), development=False)
    assert await doorman.ask("digest") == HOLDER
    assert doorman.recall("digest", clock.monotonic()) == (False, None)
