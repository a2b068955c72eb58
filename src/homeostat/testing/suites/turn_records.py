"""Records as the kernel would make them, for suites that need a store with something in it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import (
    AgentId,
    BoxId,
    ProjectId,
    Scope,
    ToolCallId,
    TraceId,
    TurnId,
    WorkerId,
    digest_of,
    scope_of,
    turn_of,
)
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import DELIVERABLE, Card
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.head import Head
from homeostat.core.records.turn import AfterExecution, MessageType, OpenTurn, Step, Turn, Wait, WaitStatus
from homeostat.core.records.writes import Answer, OutboxRow, Saved, Writes

OpenStore = Callable[[], Awaitable[TurnStore]]
"""Opens the store under test; called again, a further instance on the same data, as another process would."""

Check = Callable[[OpenStore], Awaitable[None]]
"""One promise, put to a store that is empty at first."""

PROJECT = ProjectId("acme")
ELSEWHERE = ProjectId("umbrella")
AGENT = AgentId("agent-1")
WORKER = WorkerId("wrk_1")
NOW = Millis(1_750_000_000_000)


def scope_at(instant: int, number: int = 0) -> Scope:
    """The scope an id minted at this instant would have."""
    return Scope(f"{(instant << 48) + number:024x}")


def turn(seq: int = 1, *, at: int = NOW, agent_id: str = AGENT, project: str = PROJECT, **changes: Any) -> Turn:
    """A plain turn; its id follows from when, where and as which it came."""
    scope = scope_at(at, (hash_of(project, agent_id) << 24) + seq)
    made = Turn(
        turn_id=turn_of(scope),
        project=ProjectId(project),
        agent_id=AgentId(agent_id),
        seq=seq,
        type=MessageType.TURN,
        payload=Json(f'{{"n":{seq}}}'),
        correlation_id=None,
        source=None,
        parent_turn_id=None,
        parent_step_id=None,
        reply_call_id=None,
        trace_id=TraceId("00000000" + scope),
        depth=0,
        run_id=None,
        context_box_id=None,
        output_box_id=None,
        result_fields=None,
        previous_turn_id=None,
        created_at_ms=Millis(at),
    )
    return replace(made, **changes)


def hash_of(*words: str) -> int:
    return int(digest_of("/".join(words))[:4], 16)


def idle(agent_id: str = AGENT, project: str = PROJECT, **changes: Any) -> Head:
    return replace(Head.new(ProjectId(project), AgentId(agent_id), NOW), **changes)


def holding(head: Head, active: Turn, status: HeadStatus = HeadStatus.RUNNING, **changes: Any) -> Head:
    """The same head with a turn on it, one version on."""
    changes.setdefault("worker_id", WORKER if status is HeadStatus.RUNNING else None)
    changes.setdefault("epoch", head.epoch + 1)
    return replace(
        head, version=head.version + 1, status=status, turn_id=active.turn_id, last_turn_id=active.turn_id, **changes
    )


def moved(head: Head, **changes: Any) -> Head:
    """The same head one version on."""
    return replace(head, version=head.version + 1, **changes)


def card(scope: str, position: int, content: str = '"text"', *, project: str = PROJECT, **changes: Any) -> Card:
    made = Card(ProjectId(project), Scope(scope), position, "note", Json(content), digest_of(content), AGENT, NOW)
    return replace(made, **changes)


def deliverable(ended: Turn, status: str = "success", *, epoch: int = 1, error: str = "null") -> Card:
    """The card that ends a turn."""
    content = f'{{"status":"{status}","epoch":{epoch},"result":{{"ok":true}},"error":{error}}}'
    return card(scope_of(ended.turn_id), 0, content, project=ended.project, type=DELIVERABLE, author=ended.agent_id)


def wait(waiting: Turn, call_id: str, *, deadline: int = NOW + 1000, **changes: Any) -> Wait:
    made = Wait(
        turn_id=waiting.turn_id,
        call_id=ToolCallId(call_id),
        project=waiting.project,
        agent_id=waiting.agent_id,
        tool="search",
        status=WaitStatus.PENDING,
        after_execution=AfterExecution.SUSPEND,
        step_id=None,
        call_card_id=None,
        result_card_id=None,
        created_at_ms=NOW,
        deadline_ms=Millis(deadline),
        answered_at_ms=None,
    )
    return replace(made, **changes)


def step(done: Turn, name: str, outcome: str = '"done"') -> Step:
    return Step(done.project, done.turn_id, name, Json(outcome), NOW)


def answer(key: str, text: str = '{"first":true}', *, project: str = PROJECT, at: int = NOW) -> Answer:
    return Answer(ProjectId(project), key, digest_of(key), Json(text), Millis(at))


def announcement(number: int, *, at: int = NOW, events: int = 1) -> OutboxRow:
    made = (
        Event(f"e{number}.{n}", PROJECT, Channel.EVT, "agent", AGENT, "task", Json('{"n":"\\u0000 ✓"}'))
        for n in range(events)
    )
    return OutboxRow(scope_at(at, number), tuple(made))


# --- writes ------------------------------------------------------------------------------------------------------


def swap(*heads: Head) -> dict[Any, tuple[int, Head]]:
    """Heads as a flush moves them: from the version before."""
    return {head.key: (head.version - 1, head) for head in heads}


def by_id(turns: Iterable[Turn]) -> dict[TurnId, Turn]:
    return {one.turn_id: one for one in turns}


def in_line(*entries: OpenTurn) -> dict[Any, OpenTurn]:
    return {(one.turn.project, one.turn.agent_id, one.turn.seq): one for one in entries}


def waits_of(*waits: Wait) -> dict[Any, Wait]:
    return {(one.turn_id, one.call_id): one for one in waits}


async def put(store: TurnStore, **fields: Any) -> None:
    """Save what must be savable."""
    saved = await store.save(Writes(**fields))
    assert saved == Saved(), f"a save without rivals came back as {saved}"


async def register(store: TurnStore, *heads: Head) -> None:
    await put(store, new_heads={head.key: head for head in heads})


async def finished(store: TurnStore, *turns: Turn, status: str = "success") -> None:
    """Store turns that have ended."""
    await put(store, turns=by_id(turns), cards=[deliverable(one, status) for one in turns])


def own_box(of: Turn) -> BoxId:
    return BoxId("box_" + scope_of(of.turn_id))
