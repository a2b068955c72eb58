"""What was learned of healing, for operators: to forbid a remedy, allow it again, take it along and bring it in."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from homeostat.core.clock import Clock, Millis
from homeostat.core.errors import InvalidRequest
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.immune import NEVER, Diagnosis, Feedback, FeedbackId, Lesson, RemedyAction, Veto
from homeostat.core.records.turn import AgentKey
from homeostat.immune.errors import VetoUnknown
from homeostat.immune.ladder import LADDERS, Experience, Step
from homeostat.immune.vitals import Anomaly
from homeostat.immune.ward import Ward

KnownT = TypeVar("KnownT", Lesson, Feedback, Veto)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What one project's memory holds, or what of another's would be new to it."""

    lessons: tuple[Lesson, ...] = ()
    feedback: tuple[Feedback, ...] = ()
    vetoes: tuple[Veto, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lessons or self.feedback or self.vetoes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What a memory takes from another one, and which ladders are in another order by it."""

    new: Knowledge
    ladders: dict[Diagnosis, tuple[RemedyAction, ...]]


class MemoryDesk:
    """Stores what operators decide on remedies, then tells everybody who heals by it."""

    def __init__(self, *, ward: Ward, clock: Clock, learn: Callable[[], Awaitable[None]]) -> None:
        self._ward = ward
        self._store = ward.store
        self._clock = clock
        self._learn = learn

    async def veto(self, key: tuple[ProjectId, AgentId | None], step: Step, *, reason: str, actor: str) -> Veto:
        """Forbid a remedy against a diagnosis: from now on no ladder has it, whichever process heals.

        What is under way is not cut off. The first word stands.
        """
        _require_rung(step)
        veto = Veto(
            project=key[0],
            agent_id=key[1],
            diagnosis=step[0],
            action=step[1],
            reason=reason,
            actor=actor,
            at_ms=self._clock.now_ms(),
        )
        stands = await self._store.put_veto(veto)
        await self._tell(veto, "vetoed")
        return stands

    async def lift(self, key: tuple[ProjectId, AgentId | None], step: Step, *, reason: str, actor: str) -> Veto:
        """Allow a remedy again; what was passed over for want of it is thought about anew."""
        found = [one for one in await self._store.vetoes() if (one.project, one.agent_id) == key and one.step == step]
        if not found or not await self._store.drop_veto(found[0]):
            raise VetoUnknown(diagnosis=step[0], action=step[1], whom=key[1] or "everybody")
        await self._tell(replace(found[0], reason=reason, actor=actor), "lifted")
        return found[0]

    async def left(self, key: tuple[ProjectId, AgentId | None], diagnosis: Diagnosis) -> tuple[RemedyAction, ...]:
        """What may still be tried against a diagnosis."""
        agent: AgentKey = (key[0], key[1] or AgentId(""))
        gone = {one.action for one in await self._store.vetoes_on(agent) if one.diagnosis is diagnosis}
        return tuple(action for action in LADDERS[diagnosis] if action not in gone)

    async def knowledge(self, project: ProjectId) -> Knowledge:
        """All that a project's memory holds."""
        return Knowledge(
            lessons=_of(project, await self._store.lessons()),
            feedback=_of(project, await self._store.feedback()),
            vetoes=_of(project, await self._store.vetoes()),
        )

    async def absorb(
        self,
        project: ProjectId,
        brought: Knowledge,
        *,
        origin: ProjectId | None,
        reason: str,
        actor: str,
        dry_run: bool,
    ) -> Merge:
        """Take in what another memory holds, or only tell what of it is new. The same again is nothing new."""
        _check(brought, self._clock.now_ms())
        lessons, feedback = await self._store.lessons(), await self._store.feedback()
        new = Knowledge(
            lessons=_raised(_of(project, lessons), _unlearned(_of(origin, lessons), brought.lessons)),
            feedback=_unheard(project, feedback, brought.feedback),
            vetoes=_unspoken(_of(project, await self._store.vetoes()), brought.vetoes),
        )
        before, after = Experience(lessons), Experience(_replaced(lessons, new.lessons))
        ladders = {one: after.ladder(one) for one in Diagnosis if after.ladder(one) != before.ladder(one)}
        if new and not dry_run:
            await self._store.absorb(lessons=new.lessons, feedback=new.feedback, vetoes=new.vetoes)
            await self._learn()
            counts = {"lessons": len(new.lessons), "feedback": len(new.feedback), "vetoes": len(new.vetoes)}
            await self._ward.tell_of_memory(project, {"what": "imported", "actor": actor, "reason": reason, **counts})
        return Merge(new=new, ladders=ladders)

    async def _tell(self, veto: Veto, what: str) -> None:
        said = {"what": what, "agent_id": veto.agent_id, "diagnosis": veto.diagnosis, "action": veto.action}
        await self._ward.tell_of_memory(veto.project, {**said, "actor": veto.actor, "reason": veto.reason})


# --- merging: each of these is a join, so that the order of files and how often they come make no difference ---------


def _unlearned(known: Iterable[Lesson], brought: Iterable[Lesson]) -> Iterator[Lesson]:
    """Lessons that the project they come from has not learned here: those all ladders heed, and would count twice."""
    theirs = {_key(one): one for one in known}
    for one in brought:
        has = theirs.get(_key(one))
        if has is None or has.cured < one.cured or has.failed < one.failed:
            yield one


def _raised(known: Iterable[Lesson], brought: Iterable[Lesson]) -> tuple[Lesson, ...]:
    """Lessons of which another memory knows more. Counts only ever grow, so the larger one has seen more."""
    mine = {_key(one): one for one in known}
    joined = dict(mine)
    for one in brought:
        has = joined.get(_key(one), replace(one, cured=0, failed=0, failed_at_ms=NEVER))
        joined[_key(one)] = replace(
            has,
            cured=max(has.cured, one.cured),
            failed=max(has.failed, one.failed),
            failed_at_ms=max(has.failed_at_ms, one.failed_at_ms),
        )
    return tuple(one for key, one in joined.items() if mine.get(key) != one)


def _unheard(project: ProjectId, known: Iterable[Feedback], brought: Iterable[Feedback]) -> tuple[Feedback, ...]:
    """What operators said and nobody here has heard, or what they took back. All projects heed what one has heard."""
    mine = {one.feedback_id: one for one in known}
    joined: dict[FeedbackId, Feedback] = {}
    for one in brought:
        has = joined.get(one.feedback_id) or mine.get(one.feedback_id)
        if has is None or (one.withdrawn and not has.withdrawn and has.project == project):
            joined[one.feedback_id] = one if has is None else replace(has, withdrawn=True)
    return tuple(joined.values())


def _unspoken(known: Iterable[Veto], brought: Iterable[Veto]) -> tuple[Veto, ...]:
    """Vetoes that do not stand here yet."""
    joined = {(one.agent_id, one.step): one for one in (*reversed(tuple(brought)), *known)}
    mine = set(known)
    return tuple(one for one in joined.values() if one not in mine)


def _replaced(lessons: Sequence[Lesson], new: Sequence[Lesson]) -> list[Lesson]:
    return list({(one.project, *_key(one)): one for one in (*lessons, *new)}.values())


def _key(lesson: Lesson) -> tuple[AgentId, Diagnosis, RemedyAction]:
    return (lesson.agent_id, lesson.diagnosis, lesson.action)


def _of(project: ProjectId | None, found: Iterable[KnownT]) -> tuple[KnownT, ...]:
    return tuple(one for one in found if one.project == project)


# --- what is refused -------------------------------------------------------------------------------------------------


def _require_rung(step: Step) -> None:
    diagnosis, action = step
    if action not in LADDERS[diagnosis]:
        ladder = ", ".join(LADDERS[diagnosis])
        raise InvalidRequest(problem=f"{action} is not tried against {diagnosis}; its remedies are {ladder}")


def _check(brought: Knowledge, now: Millis) -> None:
    """Refuse what no memory can have learned."""
    for one in (*brought.lessons, *brought.vetoes):
        _require_rung((one.diagnosis, one.action))
    for lesson in brought.lessons:
        if not lesson.cured and not lesson.failed:
            raise InvalidRequest(problem=f"a lesson of {lesson.agent_id!r} has neither helped nor failed")
        if bool(lesson.failed) != bool(lesson.failed_at_ms):
            raise InvalidRequest(problem=f"a lesson of {lesson.agent_id!r} failed {lesson.failed} times, and not when")
    times = [one.failed_at_ms for one in brought.lessons] + [one.at_ms for one in (*brought.feedback, *brought.vetoes)]
    if any(not 0 <= at <= now for at in times):
        raise InvalidRequest(problem="something in it has not happened yet, or happened before 1970")
    kinds = {kind for one in brought.feedback for kind in one.kinds}
    if unknown := sorted(kinds - set(Anomaly)):
        raise InvalidRequest(problem=f"{unknown[0]!r} is no kind of evidence")
