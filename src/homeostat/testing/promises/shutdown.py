"""What `shutdown()` promises."""

import asyncio

from homeostat.agent.errors import StartupError
from homeostat.core.machines.agent import AgentState
from homeostat.testing.probe import PATIENCE_SECONDS, Subject, outcomes, promise, settle, together
from homeostat.testing.promises.common import BOUND_SECONDS, PATIENT, Boom, S, is_in, now


async def shutdown_makes_terminated(subject: Subject) -> None:
    probe = subject.agent()
    await probe.agent.startup()
    await probe.agent.shutdown()
    is_in(probe, S.TERMINATED, "after shutdown()")


async def shutdown_twice_is_shutdown_once(subject: Subject) -> None:
    probe = subject.agent()
    hook = probe.watch_shutdown()
    await probe.agent.startup()
    await probe.agent.shutdown()
    await probe.agent.shutdown()
    is_in(probe, S.TERMINATED, "after a second shutdown()")
    promise(f"a second shutdown() does nothing; _do_shutdown ran {hook.runs} times", held=hook.runs == 1)


async def shutdowns_side_by_side_share_one(subject: Subject) -> None:
    probe = subject.agent()
    hook = probe.watch_shutdown()
    hook.hold()
    await probe.agent.startup()

    async def stop() -> AgentState:
        await probe.agent.shutdown()
        return probe.agent.get_state()

    tasks = together(stop(), stop(), stop())
    await hook.reached(*tasks)
    await settle()
    early = [task for task in tasks if task.done()]
    hook.let_go()
    states = await outcomes(tasks)
    promise(f"shutdown() returns when all is clean; {len(early)} of 3 came back before", held=not early)
    promise(f"every caller finds the agent terminated; they found {states}", held=states == [S.TERMINATED] * 3)
    promise(f"one clean-up serves all callers; _do_shutdown ran {hook.runs} times", held=hook.runs == 1)


async def shutdown_during_startup_wins(subject: Subject) -> None:
    probe = subject.agent()
    hook = probe.watch_startup()
    hook.hold()
    (starting,) = together(probe.agent.startup(PATIENT))
    await hook.reached(starting)
    (stopping,) = together(probe.agent.shutdown())
    await settle()
    hook.let_go()
    await stopping
    is_in(probe, S.TERMINATED, "after a shutdown() during startup()")
    (started,) = await outcomes([starting])
    promise(f"the startup that lost raises StartupError; it gave {started!r}", held=isinstance(started, StartupError))
    await settle()
    is_in(probe, S.TERMINATED, "once the startup that lost has ended")


async def shutdown_before_startup_is_fine(subject: Subject) -> None:
    probe = subject.agent()
    await probe.agent.shutdown()
    is_in(probe, S.TERMINATED, "after shutdown() without a startup()")


async def shutdown_never_raises(subject: Subject) -> None:
    probe = subject.agent()
    probe.watch_shutdown().failures = [Boom("cannot close")]
    await probe.agent.startup()
    (raised,) = await outcomes(together(probe.agent.shutdown()))
    promise(f"shutdown() raises nothing; it raised {raised!r}", held=raised is None)
    is_in(probe, S.TERMINATED, "after a clean-up that failed")


async def shutdown_is_bounded(subject: Subject) -> None:
    probe = subject.agent()
    probe.watch_shutdown().hold()
    await probe.agent.startup()
    began = now()
    async with asyncio.timeout(PATIENCE_SECONDS / 2):
        await probe.agent.shutdown(BOUND_SECONDS)
    took = now() - began
    promise(f"shutdown({BOUND_SECONDS}) ends in time; it took {took:.1f} s", held=took < PATIENCE_SECONDS / 4)
    is_in(probe, S.TERMINATED, "after a clean-up that did not end")


async def nothing_is_left_running(subject: Subject) -> None:
    before = asyncio.all_tasks()
    probe = subject.agent()
    await probe.agent.startup()
    await probe.agent.shutdown()
    await settle()
    left = {task.get_name() for task in asyncio.all_tasks() - before}
    promise(f"after shutdown() no task of the agent is left; there is {sorted(left)}", held=not left)
