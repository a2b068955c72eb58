"""What `startup()` promises."""

from homeostat.core.machines.agent import AgentState
from homeostat.testing.probe import PATIENCE_SECONDS, Subject, outcomes, promise, settle, together
from homeostat.testing.promises.common import (
    BOUND_SECONDS,
    LEFT_AS_IS,
    PATIENT,
    RETRYING,
    SHORT,
    Boom,
    S,
    causes_of,
    is_in,
    now,
    startup_error,
)


async def an_agent_begins_uninitialized(subject: Subject) -> None:
    is_in(subject.agent(), S.UNINITIALIZED, "before any startup()")


async def startup_makes_ready(subject: Subject) -> None:
    probe = subject.agent()
    await probe.agent.startup()
    is_in(probe, S.READY, "after startup()")


async def startup_twice_is_startup_once(subject: Subject) -> None:
    probe = subject.agent()
    hook = probe.watch_startup()
    await probe.agent.startup()
    await probe.agent.startup()
    is_in(probe, S.READY, "after a second startup()")
    promise(f"a second startup() does nothing; _do_startup ran {hook.runs} times", held=hook.runs == 1)


async def startups_side_by_side_share_one(subject: Subject) -> None:
    probe = subject.agent()
    hook = probe.watch_startup()
    hook.hold()

    async def start() -> AgentState:
        await probe.agent.startup(PATIENT)
        return probe.agent.get_state()

    tasks = together(start(), start(), start())
    await hook.reached(*tasks)
    await settle()
    early = [task for task in tasks if task.done()]
    hook.let_go()
    states = await outcomes(tasks)
    promise(f"startup() returns when the agent is ready; {len(early)} of 3 came back before", held=not early)
    promise(f"every caller finds the agent ready; they found {states}", held=states == [S.READY] * 3)
    promise(f"one startup serves all callers; _do_startup ran {hook.runs} times", held=hook.runs == 1)


async def a_failed_startup_names_its_cause(subject: Subject) -> None:
    probe = subject.agent()
    error = Boom("no connection")
    probe.watch_startup().fail(error)
    raised = await startup_error(probe, PATIENT)
    causes = causes_of(raised)
    promise(f"StartupError has its cause; it has {causes}", held=any(cause is error for cause in causes))


async def a_failed_startup_is_rolled_back(subject: Subject) -> None:
    probe = subject.agent()
    cleaning = probe.watch_shutdown()
    probe.watch_startup().fail(Boom("half way"))
    await startup_error(probe, PATIENT)
    is_in(probe, S.TERMINATED, "after a failed startup with cleanup_on_error")
    promise(f"a rollback cleans up once; _do_shutdown ran {cleaning.runs} times", held=cleaning.runs == 1)


async def shutdown_cleans_up_after_a_failed_startup(subject: Subject) -> None:
    probe = subject.agent()
    cleaning = probe.watch_shutdown()
    probe.watch_startup().fail(Boom("half way"))
    await startup_error(probe, LEFT_AS_IS)
    promise("without cleanup_on_error nothing is cleaned up yet", held=cleaning.runs == 0)
    promise("an agent whose startup failed is not ready", held=probe.agent.get_state() is not S.READY)
    await probe.agent.shutdown()
    is_in(probe, S.TERMINATED, "after shutdown()")
    promise(f"shutdown() cleans up once; _do_shutdown ran {cleaning.runs} times", held=cleaning.runs == 1)


async def startup_is_bounded(subject: Subject) -> None:
    probe = subject.agent()
    probe.watch_startup().hold()
    began = now()
    await startup_error(probe, SHORT)
    took = now() - began
    promise(f"startup() ends within its {BOUND_SECONDS} s; it took {took:.1f} s", held=took < PATIENCE_SECONDS / 4)
    promise("an agent whose startup timed out is not ready", held=probe.agent.get_state() is not S.READY)


async def startup_retries_when_asked(subject: Subject) -> None:
    probe = subject.agent()
    hook = probe.watch_startup()
    hook.failures = [Boom("once"), Boom("twice")]
    await probe.agent.startup(RETRYING)
    is_in(probe, S.READY, "after two failed attempts and max_retries=2")
    promise(f"it took three attempts; _do_startup ran {hook.runs} times", held=hook.runs == 3)


async def startup_gives_up_after_its_retries(subject: Subject) -> None:
    probe = subject.agent()
    hook = probe.watch_startup()
    hook.fail(Boom("every time"))
    await startup_error(probe, RETRYING)
    promise(f"max_retries=2 makes three attempts; _do_startup ran {hook.runs} times", held=hook.runs == 3)


async def startup_does_not_retry_unasked(subject: Subject) -> None:
    probe = subject.agent()
    hook = probe.watch_startup()
    hook.fail(Boom("once"))
    await startup_error(probe, PATIENT)
    promise(f"without retry_on_failure there is one attempt; _do_startup ran {hook.runs} times", held=hook.runs == 1)


async def a_terminated_agent_refuses_to_start(subject: Subject) -> None:
    probe = subject.agent()
    await probe.agent.startup()
    await probe.agent.shutdown()
    await startup_error(probe, PATIENT)
    is_in(probe, S.TERMINATED, "after a refused startup()")


async def a_cancelled_startup_does_not_end_ready(subject: Subject) -> None:
    probe = subject.agent()
    hook = probe.watch_startup()
    hook.hold()
    (task,) = together(probe.agent.startup(PATIENT))
    await hook.reached(task)
    task.cancel()
    await outcomes([task])
    hook.let_go()
    await settle()
    promise("a startup whose only caller was cancelled does not end ready", held=probe.agent.get_state() is not S.READY)
