"""Keeps agents held as they should be: what is wanted is stored first, then done, then read back, again and again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from homeostat.core.clock import Clock, Millis
from homeostat.core.enforcement_errors import AgentMoved, ReceiptUnknown
from homeostat.core.errors import Conflict, HomeostatError
from homeostat.core.machines.phase import RUNS, Phase
from homeostat.core.ports.immune import EnforcementStore, Enforcer, Spending
from homeostat.core.records.enforcement import Effect, Gap, Hold, Mandate, Mode, Reading, Receipt, Strategy, Verb
from homeostat.core.records.immune import NEVER, Patient, Stance
from homeostat.core.records.turn import AgentKey
from homeostat.immune.lanes import Lanes

log = logging.getLogger(__name__)

T = TypeVar("T")
Tell = Callable[[AgentKey, str, dict[str, object]], Awaitable[None]]

STRATEGY_SECONDS: Final = 5.0  # what one strategy may take for one step; a hanging engine is not waited for
FORESEE_SECONDS: Final = 0.05  # what is not known by then of an agent that is to be held is found out afterwards
GAPS_KEPT_MAX: Final = 32
ELSEWHERE_SECONDS: Final = 10.0  # how long a machine may be silent about whom it holds before nobody vouches for it


def stance_of(patient: Patient, enforcer: Enforcer) -> Stance:
    """How one strategy is to hold an agent, which follows from its phase alone.

    A stopped process cannot be treated: while it is, the ways that keep it from running let go, and the gates do not.
    """
    if patient.phase in RUNS:
        return Stance.OPEN
    if patient.killed:
        return Stance.ENDED
    if patient.phase is Phase.DRAINING:
        return Stance.DRAINING
    return Stance.OPEN if patient.phase is Phase.HEALING and enforcer.frees_to_treat else Stance.CLOSED


def verb_of(patient: Patient) -> Verb:
    if patient.phase in RUNS:
        return Verb.RELEASE
    return Verb.KILL if patient.killed else Verb.QUARANTINE


def judge(wanted: Stance, reading: Reading, enforcer: Enforcer) -> Effect:
    """What a reading says of a wish."""
    if reading.stance is None:
        return Effect.UNVERIFIED
    if wanted is Stance.OPEN and reading.lost:
        return Effect.FAILED
    met = reading.stance is wanted
    met = met or (wanted is Stance.DRAINING and not enforcer.drains)
    met = met or (wanted is Stance.OPEN and reading.stance is Stance.ENDED)  # who is gone is held by nobody
    met = met or (wanted is Stance.ENDED and not enforcer.ends and reading.stance is Stance.CLOSED)
    if not met and wanted is Stance.CLOSED and reading.stance is Stance.ENDED:
        return Effect.UNVERIFIED  # there is nobody left to hold, which is not the same as holding
    return Effect.ENFORCED if met else Effect.FAILED


class Enforcement:
    """Everybody's holds, as they are wanted and as they were found."""

    def __init__(
        self,
        *,
        store: EnforcementStore,
        enforcers: Sequence[Enforcer],
        spending: Spending,
        clock: Clock,
        mode: Mode = Mode.ALL,
        tell: Tell | None = None,
        host: str = "",
    ) -> None:
        order = list(Strategy)
        self.store = store
        self.enforcers = tuple(sorted(enforcers, key=lambda one: order.index(one.strategy)))
        self._spending = spending
        self._clock = clock
        self._mode = mode
        self._host = host
        self.tell: Tell = tell or _nobody
        self._holds: dict[AgentKey, dict[Strategy, Hold]] = {}
        self._out_of_sight: set[AgentKey] = set()
        self._lanes = Lanes(self._settle)

    async def load(self) -> None:
        """Know what was wanted before this process began, or while another one decided."""
        self._holds = {}
        self._out_of_sight.clear()
        for hold in await self.store.holds():
            self._holds.setdefault(hold.key, {})[hold.strategy] = hold

    async def close(self) -> None:
        await self._lanes.close()

    @property
    def unsettled(self) -> set[AgentKey]:
        """Agents of whom something is wanted that is not known to be so."""
        known = {key for key, holds in self._holds.items() if not all(hold.settled for hold in holds.values())}
        return known | self._out_of_sight

    @property
    def out_of_sight(self) -> frozenset[AgentKey]:
        """Agents of whom only the store knows what is wanted."""
        return frozenset(self._out_of_sight)

    def lose_sight(self, key: AgentKey) -> None:
        """An agent was moved and this process has not seen it done: by another one, or by itself without an answer.

        What is wanted of it may be stored and nobody at it, as whoever moved it may be gone.
        """
        self._out_of_sight.add(key)

    async def _known(self, key: AgentKey, *, anew: bool = False) -> dict[Strategy, Hold]:
        """What is wanted of an agent, by the store where somebody else may have had the last word."""
        if anew or key not in self._holds or key in self._out_of_sight:
            self._out_of_sight.discard(key)  # first: who moves it meanwhile is not forgotten
            try:
                self._holds[key] = {hold.strategy: hold for hold in await self.store.holds_of(key)}
            except BaseException:
                self._out_of_sight.add(key)
                raise
        return self._holds[key]

    # --- bringing about --------------------------------------------------------------------------------------

    async def foresee(self, patient: Patient) -> tuple[Hold, ...]:
        """What is to be stored with the decision itself. What cannot be told yet is stored when it is seen to."""
        key = patient.key
        nobody_was_held = key not in self._holds and key not in self._out_of_sight
        if key in self._lanes or self._mode is Mode.FIRST or (patient.phase in RUNS and nobody_was_held):
            return ()
        known = await self._known(key)
        if any(hold.doubted or self._elsewhere(hold) for hold in known.values()):
            return ()
        try:
            async with asyncio.timeout(FORESEE_SECONDS):
                wishes = [await self._wish(patient, one, known) for one in self.enforcers]
        except TimeoutError:
            return ()  # the decision does not wait for an engine that hangs
        return tuple(wish for wish in wishes if wish is not None and wish != known.get(wish.strategy))

    def decided(self, holds: Sequence[Hold]) -> None:
        for hold in holds:
            if hold.key not in self._lanes:
                self._holds.setdefault(hold.key, {})[hold.strategy] = hold

    async def bring(self, patient: Patient) -> None:
        """Hold an agent as its phase wants it. What takes too long goes on, and is not claimed to be so."""
        await self._lanes.bring(patient)

    async def reconcile(self, patients: Iterable[Patient], *, local_only: bool = False) -> None:
        """See that everybody is held as wanted, side by side, and put right what is not."""
        await self._lanes.bring_all(patients, local_only=local_only)

    async def _settle(self, patient: Patient, local_only: bool) -> None:  # noqa: FBT001 - called by the lanes alone
        """See to an agent as it was known here. If it has moved on since, that is for whoever moved it."""
        try:
            await self._settle_as(patient, local_only=local_only)
        except AgentMoved:
            self._holds.pop(patient.key, None)  # another process knows better what is wanted
            self.lose_sight(patient.key)

    async def _settle_as(self, patient: Patient, *, local_only: bool) -> None:
        key = patient.key
        shared = any(self._elsewhere(hold) for hold in self._holds.get(key, {}).values())
        known = await self._known(key, anew=local_only or shared)
        enforcers = [one for one in self.enforcers if one.local or not local_only]
        if verb_of(patient) is Verb.RELEASE:
            enforcers.reverse()
        # The first way that is verified is enough in that mode, so what is wanted of the others is not known yet.
        one_by_one = self._mode is Mode.FIRST and verb_of(patient) is not Verb.RELEASE
        for batch in [[one] for one in enforcers] if one_by_one else [enforcers]:
            found = await self._settle_by(patient, batch, known)
            if one_by_one and any(hold.effect is Effect.ENFORCED for hold in found):
                return

    async def _settle_by(
        self, patient: Patient, enforcers: Sequence[Enforcer], known: dict[Strategy, Hold]
    ) -> list[Hold]:
        """Store every wish, then see to each."""
        wishes = [(one, wish) for one in enforcers if (wish := await self._wish(patient, one, known)) is not None]
        changed = [wish for one, wish in wishes if wish != known.get(one.strategy)]
        mandate = Mandate(patient.key, patient.version)
        if changed:
            await self.store.save_holds(changed, mandate)
        found: list[Hold] = []
        for one, wish in wishes:
            known[one.strategy] = wish if wish.settled else await self._assert(one, wish, mandate)
            found.append(known[one.strategy])
        if seen := [hold for hold, (_, wish) in zip(found, wishes, strict=True) if hold != wish]:
            await self.store.save_holds(seen, mandate)
        for hold, (_, wish) in zip(found, wishes, strict=True):
            if hold.effect is not Effect.ENFORCED and (hold.effect, hold.note) != (wish.effect, wish.note):
                await self.tell(patient.key, "enforcement", _words(hold))
        return found

    async def _wish(self, patient: Patient, enforcer: Enforcer, known: dict[Strategy, Hold]) -> Hold | None:
        """What is to be stored before anything is done; None where there is nothing to do."""
        wanted, verb, old = stance_of(patient, enforcer), verb_of(patient), known.get(enforcer.strategy)
        idle = old is None or (old.settled and old.verb is Verb.RELEASE)
        if idle and wanted is Stance.OPEN:
            return None
        moved = old is not None and self._elsewhere(old)
        reached: bool | None = True
        if idle or moved or (old is not None and old.doubted):
            reached = await self._reached(enforcer, patient.key)
        if reached is not True and old is not None and moved and not idle:
            await self._vouch(old, known)
            return None
        if reached is False:
            if old is not None and not idle:  # nobody could tell, and now it is known that there is nobody to hold
                await self.store.drop_hold(patient.key, enforcer.strategy)
                del known[enforcer.strategy]
            return None
        if old is not None and old.wanted is wanted and old.verb is verb and not moved:
            if old.doubted and reached:
                before = await self._observed(enforcer, patient.key)
                return replace(old, doubted=False, before=before)
            return old
        same = next((hold for hold in known.values() if hold.verb is verb), None)
        before = "" if old is None or old.verb is Verb.RELEASE else old.before
        if not before and wanted is not Stance.OPEN:
            before = await self._observed(enforcer, patient.key)
        continued = old is not None and old.verb is not Verb.RELEASE
        return Hold(
            project=patient.project,
            agent_id=patient.agent_id,
            strategy=enforcer.strategy,
            wanted=wanted,
            verb=verb,
            reason=patient.cause if same is None else same.reason,
            actor=patient.actor if same is None else same.actor,
            asked_at_ms=self._clock.now_ms() if same is None else same.asked_at_ms,
            before=before,
            gaps=old.gaps if old is not None and continued else (),
            gaps_count=old.gaps_count if old is not None and continued else 0,
            doubted=reached is None,
            host=self._host if enforcer.local else "",
        )

    def _elsewhere(self, hold: Hold) -> bool:
        """Whether another machine sees to it."""
        return hold.host not in {"", self._host}

    async def _vouch(self, hold: Hold, known: dict[Strategy, Hold]) -> None:
        """Leave it to the machine that sees to it; where that one is silent, nobody claims that it is so."""
        silent_ms = self._clock.now_ms() - hold.checked_at_ms
        if silent_ms < ELSEWHERE_SECONDS * 1000 or hold.effect is not Effect.ENFORCED:
            return
        unseen = replace(hold, effect=Effect.UNVERIFIED, note=f"{hold.host} holds it, and has not been heard of")
        known[hold.strategy] = unseen
        await self.store.save_holds([unseen])
        await self.tell(hold.key, "enforcement", _words(unseen))

    async def _reached(self, enforcer: Enforcer, key: AgentKey) -> bool | None:
        """Whether a way reaches an agent; None where that cannot be told, so that nobody is taken for held unseen."""
        try:
            return await _within(enforcer.reaches(key))
        except (HomeostatError, TimeoutError, OSError) as problem:
            log.warning("%s cannot tell whether it reaches %s: %s", enforcer.strategy, key[1], problem)
            return None

    async def _observed(self, enforcer: Enforcer, key: AgentKey, before: str = "") -> str:
        try:
            return await _within(enforcer.observe(key, before))
        except (HomeostatError, TimeoutError, OSError) as problem:
            log.warning("%s cannot tell what %s is before it is held: %s", enforcer.strategy, key[1], problem)
            return before

    async def _assert(self, enforcer: Enforcer, wish: Hold, mandate: Mandate) -> Hold:
        """Look; where it is not as wanted, act and look again."""
        found, effect = await self._look(enforcer, wish)
        if wish.wanted is Stance.DRAINING and not enforcer.drains and wish.checked_at_ms == NEVER:
            effect = Effect.FAILED  # it was not asked yet, which cannot be seen from outside
        now = self._clock.now_ms()
        if effect is Effect.ENFORCED:
            return self._held(wish, found.note, now)
        wish = self._opened(wish, found.note or f"it was found {found.stance or 'out of sight'}")
        problem = ""
        if effect is Effect.FAILED or found.stance is None:
            wish, problem = await self._act(enforcer, wish, mandate)
            found, effect = await self._look(enforcer, wish)
        now = self._clock.now_ms()
        if effect is Effect.ENFORCED:
            return self._held(wish, found.note, now)
        if problem and effect is Effect.UNVERIFIED:
            effect = Effect.FAILED if found.stance is not None else effect
        note = "; ".join(dict.fromkeys(part for part in (problem, found.lost, found.note) if part))
        return replace(wish, effect=effect, note=note or f"it is {found.stance}", checked_at_ms=now)

    async def _act(self, enforcer: Enforcer, wish: Hold, mandate: Mandate) -> tuple[Hold, str]:
        """Do it; where the world is not what was seen, see it anew and remember that first. Returns what was wrong."""
        try:
            try:
                await _within(enforcer.hold(wish.key, wish.wanted, wish.reason, wish.before, mandate))
            except AgentMoved:
                raise
            except Conflict as changed:
                log.warning("%s of %s is seen anew: %s", wish.strategy, wish.agent_id, changed)
                wish = replace(wish, before=await self._observed(enforcer, wish.key, wish.before))
                await self.store.save_holds([wish], mandate)
                await _within(enforcer.hold(wish.key, wish.wanted, wish.reason, wish.before, mandate))
        except AgentMoved:
            raise
        except TimeoutError:
            return wish, f"it did not answer within {STRATEGY_SECONDS:g} s"
        except (HomeostatError, OSError) as error:
            return wish, str(error)
        return wish, ""

    async def _look(self, enforcer: Enforcer, wish: Hold) -> tuple[Reading, Effect]:
        try:
            found = await _within(enforcer.held(wish.key, wish.before))
        except TimeoutError:
            found = Reading(stance=None, note=f"it could not be read within {STRATEGY_SECONDS:g} s")
        except (HomeostatError, OSError) as error:
            found = Reading(stance=None, note=str(error))
        return found, judge(wish.wanted, found, enforcer)

    def _held(self, wish: Hold, note: str, now: Millis) -> Hold:
        gaps = wish.gaps
        if gaps and gaps[-1].until_ms is None:
            gaps = (*gaps[:-1], replace(gaps[-1], until_ms=now))
        return replace(wish, effect=Effect.ENFORCED, note=note, checked_at_ms=now, held_at_ms=now, gaps=gaps)

    def _opened(self, wish: Hold, note: str) -> Hold:
        """Write down that what held does not any more, since when at most."""
        if wish.wanted is Stance.OPEN or wish.effect is not Effect.ENFORCED:
            return wish
        gap = Gap(from_ms=wish.held_at_ms, until_ms=None, note=note)
        return replace(wish, gaps=(*wish.gaps, gap)[-GAPS_KEPT_MAX:], gaps_count=wish.gaps_count + 1)

    # --- what the healer asks --------------------------------------------------------------------------------

    async def in_flight(self, key: AgentKey) -> int:
        return sum([await _within(one.in_flight(key)) for one in self.enforcers])

    async def waiting(self, key: AgentKey) -> int:
        return sum([await _within(one.waiting(key)) for one in self.enforcers])

    async def preempt(self, key: AgentKey) -> None:
        for enforcer in self.enforcers:
            await _within(enforcer.preempt(key))

    # --- telling ---------------------------------------------------------------------------------------------

    async def receipt(self, key: AgentKey) -> Receipt:
        """What was asked last, what came of it by every strategy, and what the agent got since."""
        holds = await self.store.holds_of(key)
        if not holds:
            raise ReceiptUnknown(agent_id=key[1])
        latest = max(holds, key=lambda hold: hold.asked_at_ms)
        told = tuple(hold for hold in holds if hold.verb is latest.verb)
        effects = {hold.effect for hold in told}
        worst = next(effect for effect in (Effect.FAILED, Effect.UNVERIFIED, Effect.ENFORCED) if effect in effects)
        if self._mode is Mode.FIRST and latest.verb is not Verb.RELEASE and Effect.ENFORCED in effects:
            worst = Effect.ENFORCED
        return Receipt(
            project=key[0],
            agent_id=key[1],
            verb=latest.verb,
            reason=latest.reason,
            actor=latest.actor,
            asked_at_ms=latest.asked_at_ms,
            read_at_ms=self._clock.now_ms(),
            effect=worst,
            holds=told,
            spent=await self._spending.spent(key, latest.asked_at_ms),
            apart=tuple((one.strategy, why) for one in self.enforcers if (why := one.apart(key))),
        )


async def _within(work: Awaitable[T]) -> T:
    async with asyncio.timeout(STRATEGY_SECONDS):
        return await work


def _words(hold: Hold) -> dict[str, object]:
    return {"strategy": hold.strategy, "wanted": hold.wanted, "effect": hold.effect, "problem": hold.note}


async def _nobody(key: AgentKey, what: str, said: dict[str, object]) -> None:
    log.warning("%s of %s: %s", what, key[1], said)
