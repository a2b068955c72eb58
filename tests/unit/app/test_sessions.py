"""A worker elsewhere, whichever server it asks, is told what is its own and what is not."""

from homeostat.app.local_turns import LocalTurns
from homeostat.app.sessions import WorkerSessions
from homeostat.core.codec import NULL
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import Desk, key_of
from homeostat.testing.kernels import running_kernel

LEASE_SECONDS = 9.0
ANN = key_of("a")


async def test_a_grant_that_is_given_again_has_stored_steps_to_be_read() -> None:
    """The worker may have had it, worked on it, and forgotten: then nothing may be done twice."""
    desk = Desk("a")
    async with running_kernel(desk.store, clock=ManualClock(), lease_seconds=LEASE_SECONDS) as kernel:
        session, _ = await WorkerSessions(kernel, LocalTurns(kernel)).open([ANN], None, [])
        await kernel.enqueue(desk.message("a"))
        (grant,) = await session.claim(1, 5, [])
        assert grant.fresh
        await session.local.step(grant, "charge", NULL)
        (again,) = await session.claim(1, 0, [])
        assert (again.epoch, again.fresh) == (grant.epoch, False)
        assert "charge" in (await session.local.hydrate(again)).steps
