"""What the checks of the lifecycle contract share."""

import asyncio
from typing import Any

from homeostat.agent.config import LifecycleConfig
from homeostat.agent.errors import StartupError
from homeostat.core.machines.agent import AgentState
from homeostat.testing.probe import PATIENCE_SECONDS, Probe, Subject, outcomes, promise, together

S = AgentState

BOUND_SECONDS = 0.05
PATIENT = LifecycleConfig(timeout_seconds=5.0)
SHORT = LifecycleConfig(timeout_seconds=BOUND_SECONDS)
RETRYING = LifecycleConfig(timeout_seconds=5.0, retry_on_failure=True, max_retries=2)
LEFT_AS_IS = LifecycleConfig(timeout_seconds=5.0, cleanup_on_error=False)


class Boom(Exception):
    """What a check breaks an agent with."""


def is_in(probe: Probe, state: AgentState, when: str) -> None:
    found = probe.agent.get_state()
    promise(f"{when} the agent is {state.value}; it says {getattr(found, 'value', found)}", held=found == state)


async def startup_error(probe: Probe, config: LifecycleConfig) -> StartupError:
    async with asyncio.timeout(PATIENCE_SECONDS / 2):
        (raised,) = await outcomes(together(probe.agent.startup(config)))
    promise(f"startup() raises StartupError; it gave {raised!r}", held=isinstance(raised, StartupError))
    return raised


def causes_of(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__
    return found[1:]


async def ready(subject: Subject) -> tuple[Probe, Any, Any]:
    probe = subject.agent()
    probe.processing()
    hook = probe.watch_request()
    await probe.agent.startup()
    return probe, probe.agent, hook


def now() -> float:
    return asyncio.get_running_loop().time()
