"""What an agent tells of itself: metrics and events."""

from homeostat.agent.errors import RecoverableError
from homeostat.agent.events import LifecycleEmitter
from homeostat.agent.managed import ManagedAgent
from homeostat.agent.metrics import LifecycleMetrics
from homeostat.testing.probe import NotApplicable, Subject, outcomes, promise, together
from homeostat.testing.promises.common import ready


async def metrics_tell_the_durations(subject: Subject) -> None:
    probe = subject.agent()
    await probe.agent.startup()
    during = probe.agent.get_metrics()
    promise("get_metrics() gives LifecycleMetrics", held=isinstance(during, LifecycleMetrics))  # pyright: ignore[reportUnnecessaryIsInstance] - what is promised
    promise("the startup was measured", held=(during.startup_duration_seconds or -1.0) >= 0.0)
    await probe.agent.shutdown()
    after = probe.agent.get_metrics()
    promise("the shutdown was measured", held=(after.shutdown_duration_seconds or -1.0) >= 0.0)
    promise("uptime goes on until the end", held=after.uptime_seconds >= during.uptime_seconds > 0.0)


async def metrics_count_requests_and_errors(subject: Subject) -> None:
    probe, agent, hook = await ready(subject)
    await agent.process("work")
    hook.failures = [RecoverableError("try again")]
    await outcomes(together(agent.process("work")))
    metrics = probe.agent.get_metrics()
    promise(f"two requests were counted as {metrics.requests}", held=metrics.requests == 2)
    promise(f"one error was counted as {metrics.errors}", held=metrics.errors == 1)


async def every_transition_is_told_with_its_trace(subject: Subject) -> None:
    probe = subject.agent()
    agent = probe.agent
    if not isinstance(agent, ManagedAgent):
        raise NotApplicable("it has no emitter that could be replaced")
    probe.watch_request()
    listener = _Listener()
    agent.bind(emitter=listener)
    await agent.startup()
    await agent.process("work")
    await agent.shutdown()
    states = [state for _, state, _ in listener.heard]
    wanted = ["initializing", "ready", "busy", "ready", "shutting_down", "terminated"]
    promise(f"each transition is told in order; heard {states}", held=states == wanted)
    traces = {trace for *_, trace in listener.heard}
    promise(f"all in the agent's trace; heard {traces}", held=traces == {agent.context.trace_id})


class _Listener(LifecycleEmitter):
    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []

    async def emit(self, name: str, /, *, trace_id: str, state: str, **facts: object) -> None:
        del facts
        self.heard.append((name, state, trace_id))
