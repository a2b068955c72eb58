"""The lifecycle contract as checks anyone can run on any agent class: plain coroutines, no test framework needed.

`await verdicts(MyAgent)` runs them all; `pytest --homeostat-agent module:MyAgent` shows each as a test. A check that
the class offers no handle for (no `_do_startup` to hold, say) is not applicable.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from homeostat.agent.protocol import AgentLifecycleProtocol
from homeostat.testing.probe import PATIENCE_SECONDS, NotApplicable, PromiseBroken, Subject
from homeostat.testing.promises import requests, shutdown, startup, state, telling

Check = Callable[[Subject], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    startup.an_agent_begins_uninitialized,
    startup.startup_makes_ready,
    startup.startup_twice_is_startup_once,
    startup.startups_side_by_side_share_one,
    startup.a_failed_startup_names_its_cause,
    startup.a_failed_startup_is_rolled_back,
    startup.shutdown_cleans_up_after_a_failed_startup,
    startup.startup_is_bounded,
    startup.startup_retries_when_asked,
    startup.startup_gives_up_after_its_retries,
    startup.startup_does_not_retry_unasked,
    startup.a_terminated_agent_refuses_to_start,
    startup.a_cancelled_startup_does_not_end_ready,
    shutdown.shutdown_makes_terminated,
    shutdown.shutdown_twice_is_shutdown_once,
    shutdown.shutdowns_side_by_side_share_one,
    shutdown.shutdown_during_startup_wins,
    shutdown.shutdown_before_startup_is_fine,
    shutdown.shutdown_never_raises,
    shutdown.shutdown_is_bounded,
    shutdown.nothing_is_left_running,
    requests.process_needs_a_ready_agent,
    requests.an_agent_is_busy_while_it_processes,
    requests.a_busy_agent_refuses_a_second_request,
    requests.a_recoverable_error_leaves_it_ready,
    requests.a_fatal_error_shuts_it_down,
    requests.shutdown_while_busy_stays_terminated,
    requests.pause_holds_requests_until_resume,
    requests.an_illegal_transition_raises,
    state.an_agent_writes_its_own_state,
    state.memory_is_not_set_directly,
    state.the_trace_is_not_set_directly,
    state.own_state_ends_with_the_agent,
    state.memory_outlives_the_agent,
    telling.metrics_tell_the_durations,
    telling.metrics_count_requests_and_errors,
    telling.every_transition_is_told_with_its_trace,
)


BASICS: tuple[Check, ...] = (
    startup.an_agent_begins_uninitialized,
    startup.startup_makes_ready,
    shutdown.shutdown_makes_terminated,
)
"""Where one of these is broken, the others have nothing to stand on."""


class Finding(StrEnum):
    """What a check found."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise, and whether it was kept."""

    name: str
    finding: Finding
    words: str = ""


async def examine(check: Check, make: Callable[[], AgentLifecycleProtocol]) -> None:
    """Run one check; raises `PromiseBroken`, whatever the agent raised, or `NotApplicable`."""
    try:
        await _run(check, make)
    except NotApplicable:
        raise
    except Exception as problem:
        if check not in BASICS and (basic := await _broken_basic(make)) is not None:
            raise NotApplicable(f"first see to {_name(basic)}") from problem
        raise


async def _broken_basic(make: Callable[[], AgentLifecycleProtocol]) -> Check | None:
    for basic in BASICS:
        try:
            await _run(basic, make)
        except Exception:  # noqa: BLE001 - that is for the basic check itself to report
            return basic
    return None


async def _run(check: Check, make: Callable[[], AgentLifecycleProtocol]) -> None:
    subject = Subject(make)
    bound = asyncio.timeout(PATIENCE_SECONDS)
    try:
        async with bound:
            await check(subject)
    except TimeoutError as problem:
        if bound.expired():
            raise PromiseBroken(f"{_name(check)}: it did not come to an end") from problem
        raise
    finally:
        await subject.end()


async def verdicts(make: Callable[[], AgentLifecycleProtocol], checks: tuple[Check, ...] = CHECKS) -> list[Verdict]:
    """Run checks one after the other, each on agents of its own."""
    found: list[Verdict] = []
    broken = await _broken_basic(make)
    for check in checks:
        if broken is not None and check not in BASICS:
            found.append(Verdict(_name(check), Finding.NOT_APPLICABLE, f"first see to {_name(broken)}"))
            continue
        try:
            await examine(check, make)
        except NotApplicable as reason:
            found.append(Verdict(_name(check), Finding.NOT_APPLICABLE, str(reason)))
        except Exception as problem:  # noqa: BLE001 - whatever an agent raises where it should not is a broken promise
            found.append(Verdict(_name(check), Finding.BROKEN, str(problem) or repr(problem)))
        else:
            found.append(Verdict(_name(check), Finding.KEPT))
    return found


def _name(check: Check) -> str:
    return getattr(check, "__name__", repr(check))
