"""Rows and records of the gateway: the one place that knows in which order its columns stand."""

from collections.abc import Sequence
from typing import Any, TypedDict

import msgspec

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, RunId, scope_floor
from homeostat.core.pacing import Window
from homeostat.core.records.budget import Amount, Budget, BudgetKey, BudgetKind, BudgetLimit, Flight
from homeostat.core.records.call import Call, CallFilter, CallId, Outlay, call_of
from homeostat.core.records.policy import TERMS, Action, Policy, PolicyFilter, PolicyOrigin
from homeostat.core.records.rate import RateKey

Row = Sequence[Any]
NEWEST = CallId("call_~")
NUL = b"\\u0000"  # as JSON writes it


class Terms(TypedDict, total=False):
    """What a policy's row keeps in its terms."""

    requests_per_minute: int | None
    tokens_per_minute: int | None
    max_tokens: int | None
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    refuse: bool


_encoder = msgspec.json.Encoder()
_terms = msgspec.json.Decoder(Terms)
_calls = msgspec.json.Decoder(Call)
_taken = msgspec.json.Decoder(list[tuple[int, int, int]])
_keys = msgspec.json.Decoder(tuple[tuple[str, BudgetKind, str], ...])


def write_policy(policy: Policy) -> tuple[object, ...]:
    terms = {name: getattr(policy, name) for name in sorted(TERMS[policy.action])}
    return (
        policy.project,
        policy.policy_id,
        policy.agent_id,
        policy.action.value,
        policy.origin.value,
        policy.reason,
        _encoder.encode(terms).decode(),
        policy.created_at_ms,
        policy.expires_at_ms,
    )


def read_policy(row: Row) -> Policy:
    return Policy(
        project=row[0],
        policy_id=row[1],
        agent_id=row[2],
        action=Action(row[3]),
        origin=PolicyOrigin(row[4]),
        reason=row[5],
        created_at_ms=row[7],
        expires_at_ms=row[8],
        **_terms.decode(row[6]),
    )


def write_policy_filter(wanted: PolicyFilter) -> tuple[object, ...]:
    origin, action = wanted.origin, wanted.action
    return (wanted.project, wanted.agent_id, origin and origin.value, action and action.value)


def read_budget(row: Row) -> Budget:
    return Budget(
        project=row[0],
        kind=BudgetKind(row[1]),
        holder=row[2],
        tokens_max=row[3],
        micros_max=row[4],
        seconds_max=row[5],
        started_at_ms=row[6],
        spent=Amount(row[7], row[8]),
        held=Amount(row[9], row[10]),
        warned_at_ms=None if row[11] is None else Millis(row[11]),
        stopped_at_ms=None if row[12] is None else Millis(row[12]),
        warned=tuple(map(BudgetLimit, row[13].split())),
    )


def write_bounds(budget: Budget) -> tuple[object, ...]:
    return (
        *write_key(budget.key),
        budget.tokens_max,
        budget.micros_max,
        budget.seconds_max,
        budget.started_at_ms,
        budget.stopped_at_ms,
        *budget.spent,
        budget.warned_at_ms,
        " ".join(budget.warned),
    )


def write_moved(budget: Budget) -> tuple[object, ...]:
    return (*write_key(budget.key), *budget.spent, *budget.held, budget.warned_at_ms, " ".join(budget.warned))


def write_key(key: BudgetKey) -> tuple[str, str, str]:
    return (key[0], key[1].value, key[2])


def read_hold(row: Row) -> tuple[BudgetKey, Amount]:
    return (row[0], BudgetKind(row[1]), row[2]), Amount(row[3], row[4])


def write_flight(flight: Flight, gateway_id: str) -> tuple[object, ...]:
    call = flight.call
    return (
        call.call_id,
        gateway_id,
        call.project,
        call.agent_id,
        _encoder.encode(call).decode(),
        flight.reserved.tokens,
        flight.reserved.micros,
        _encoder.encode(flight.keys).decode(),
    )


def write_mark(run_id: RunId) -> str:
    """How a call that is written says which run it is of: nothing else in it can."""
    return f'"run_id":{_encoder.encode(run_id).decode()}'


def read_flight(row: Row) -> Flight:
    keys: Any = _keys.decode(row[3])
    return Flight(_calls.decode(row[0]), Amount(row[1], row[2]), keys)


def write_call(call: Call) -> tuple[object, ...]:
    """What is asked for has a column of its own; the whole of it lies beside them."""
    return (
        call.call_id,
        call.project,
        call.agent_id,
        call.run_id,
        call.model.replace("\0", ""),  # which PostgreSQL cannot keep
        call.outcome.value,
        call.usage.tokens,
        call.cost_micros,
        _encoder.encode(call).decode(),
    )


def write_calls(calls: Sequence[Call]) -> tuple[str, list[str]]:
    """Many calls as one text in which PostgreSQL finds the columns; where it could not, these and the calls apart."""
    written = _encoder.encode(calls)
    if NUL not in written:
        return written.decode(), []
    columns = [
        {
            "call_id": call.call_id,
            "project": call.project,
            "agent_id": call.agent_id,
            "run_id": call.run_id,
            "model": call.model.replace("\0", ""),
            "outcome": call.outcome,
            "usage": call.usage,
            "cost_micros": call.cost_micros,
        }
        for call in calls
    ]
    return _encoder.encode(columns).decode(), [_encoder.encode(call).decode() for call in calls]


def write_filter(wanted: CallFilter, limit: int) -> tuple[object, ...]:
    return (
        wanted.project,
        wanted.before or NEWEST,
        call_of(scope_floor(wanted.since_ms or 0)),
        wanted.agent_id,
        wanted.run_id,
        wanted.outcome.value if wanted.outcome else None,
        wanted.model,
        limit,
    )


def write_span(since: Millis, until: Millis) -> tuple[str, str]:
    """Ids of calls are in the order of their beginnings."""
    return call_of(scope_floor(since)), call_of(scope_floor(until))


def read_outlay(row: Row) -> tuple[AgentId, Outlay]:
    return AgentId(row[0]), Outlay(calls=row[1], cost_micros=row[2])


def read_call(row: Row) -> Call:
    return _calls.decode(row[0])


def read_window(row: Row) -> Window:
    return Window(_taken.decode(row[0]))


def write_window(key: RateKey, window: Window, now: Millis) -> tuple[object, ...]:
    return (*key, _encoder.encode(window.rows).decode(), now)
