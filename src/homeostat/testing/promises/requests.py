"""What `process()`, `pause()` and `resume()` promise."""

from collections.abc import Awaitable, Callable

from homeostat.agent.errors import FatalError, RecoverableError
from homeostat.testing.probe import NotApplicable, Subject, outcomes, promise, settle, together
from homeostat.testing.promises.common import BOUND_SECONDS, Boom, S, is_in, ready


async def process_needs_a_ready_agent(subject: Subject) -> None:
    probe = subject.agent()
    agent = probe.processing()
    hook = probe.watch_request()
    (early,) = await outcomes(together(agent.process("work")))
    promise("process() before startup() is refused", held=isinstance(early, Exception) and hook.runs == 0)
    await agent.startup()
    await agent.shutdown()
    (late,) = await outcomes(together(agent.process("work")))
    promise("process() after shutdown() is refused", held=isinstance(late, Exception) and hook.runs == 0)


async def an_agent_is_busy_while_it_processes(subject: Subject) -> None:
    probe, agent, hook = await ready(subject)
    hook.hold()
    (working,) = together(agent.process("work"))
    await hook.reached(working)
    is_in(probe, S.BUSY, "during process()")
    hook.let_go()
    await working
    is_in(probe, S.READY, "after process()")


async def a_busy_agent_refuses_a_second_request(subject: Subject) -> None:
    _, agent, hook = await ready(subject)
    hook.hold()
    (working,) = together(agent.process("work"))
    await hook.reached(working)
    (second,) = together(agent.process("more"))
    await settle()
    refused = second.done() and isinstance(second.exception(), Exception)
    hook.let_go()
    await outcomes([working, second])
    promise("a second request is refused while one is worked on", held=refused)


async def a_recoverable_error_leaves_it_ready(subject: Subject) -> None:
    for error in (RecoverableError("try again"), Boom("unexpected")):
        probe, agent, hook = await ready(subject)
        hook.failures = [error]
        (raised,) = await outcomes(together(agent.process("work")))
        promise(f"process() raises what went wrong; it gave {raised!r}", held=raised is error)
        is_in(probe, S.READY, f"after a {type(error).__name__}")


async def a_fatal_error_shuts_it_down(subject: Subject) -> None:
    probe, agent, hook = await ready(subject)
    error = FatalError("broken for good")
    hook.failures = [error]
    (raised,) = await outcomes(together(agent.process("work")))
    promise(f"process() raises the FatalError; it gave {raised!r}", held=raised is error)
    is_in(probe, S.TERMINATED, "after a FatalError")


async def shutdown_while_busy_stays_terminated(subject: Subject) -> None:
    probe, agent, hook = await ready(subject)
    hook.hold()
    (working,) = together(agent.process("work"))
    await hook.reached(working)
    (stopping,) = together(agent.shutdown(BOUND_SECONDS))
    await settle()
    hook.let_go()
    await outcomes([working, stopping])
    await settle()
    is_in(probe, S.TERMINATED, "after a shutdown() during process()")


async def pause_holds_requests_until_resume(subject: Subject) -> None:
    probe, agent, hook = await ready(subject)
    pause, resume = getattr(agent, "pause", None), getattr(agent, "resume", None)
    if pause is None or resume is None:
        raise NotApplicable("it has no pause() and resume()")
    await pause()
    is_in(probe, S.PAUSED, "after pause()")
    (refused,) = await outcomes(together(agent.process("work")))
    promise("a paused agent takes no requests", held=isinstance(refused, Exception) and hook.runs == 0)
    await resume()
    is_in(probe, S.READY, "after resume()")


async def an_illegal_transition_raises(subject: Subject) -> None:
    probe = subject.agent()
    pause: Callable[[], Awaitable[None]] | None = getattr(probe.agent, "pause", None)
    if pause is None:
        raise NotApplicable("it has no pause()")

    async def attempt() -> None:
        await pause()

    (raised,) = await outcomes(together(attempt()))
    promise("pause() before startup() raises", held=isinstance(raised, Exception))
    promise("a refused pause() changes nothing", held=probe.agent.get_state() is not S.PAUSED)
