"""One agent under watch: what is stored of it, and what is only known while this process lives."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from homeostat.core.clock import Millis
from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import NEVER, Evidence, Incident, Patient
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Vitals
from homeostat.immune.behaviour import ALARM_RISK, Habits, Sign, Trail
from homeostat.immune.correlator import Cohort
from homeostat.immune.vitals import Anomaly

EVIDENCE_KEPT_MAX: Final = 32
BEHAVIOUR_SIGMA: Final = 4.5  # what an agent does is evidence, not a measure: it never isolates at first sight
PROMPT_SIGMA: Final = 3.5
PROMPT_STEADY_RUNS: Final = 20
PROMPT_SUSPECT_SAMPLES: Final = 2  # a new prompt alone is a new version, not an illness
TRAIL_GAP_MS: Final = 60_000

TEACHES: Final = frozenset({Phase.INITIALIZING, Phase.HEALTHY})


def _evidence() -> deque[Evidence]:
    return deque(maxlen=EVIDENCE_KEPT_MAX)


@dataclass(slots=True)
class Watch:
    """What the orchestrator holds of an agent between two ticks."""

    patient: Patient
    rows: dict[str, int] = field(default_factory=dict[str, int])
    habits: Habits = field(default_factory=Habits)
    incident: Incident | None = None
    cohorts: tuple[Cohort, ...] = ()
    evidence: deque[Evidence] = field(default_factory=_evidence)
    streak: int = 0  # anomalous ticks in a row
    sigma: float = 0.0  # the worst of them
    flared: bool = False  # suspected and cleared within one pass
    worst: float = 0.0  # sigma within one pass, though it may be over by the end of it
    longest: int = 0  # streak within one pass, likewise
    wanted_at: float | None = None  # since when it should be isolated
    capped: bool = False
    stale: bool = False  # another process has moved it
    unlearn: bool = False  # another process wants it to begin anew
    heard_at: float | None = None
    failures: dict[int, int] = field(default_factory=dict[int, int])  # failed samples in a row, by row
    streaks: dict[int, int] = field(default_factory=dict[int, int])  # calls and turns are counted apart
    ticks: dict[int, int] = field(default_factory=dict[int, int])
    fresh: int = 0  # ticks of probation
    bad: int = 0
    held_before: int = 0
    emptied_ms: int = -1  # which isolation, by its time, it was last seen to that nothing is in hand
    gateway_at_ms: Millis = NEVER
    dirty: bool = False
    drill: bool = False  # a fire drill is under way: nothing of it is treated, counted or written down
    _trail: Trail | None = None
    _trail_key: str = ""
    _trail_at_ms: int = 0
    _prompt_doubts: int = 0

    @property
    def key(self) -> AgentKey:
        return self.patient.key

    @property
    def phase(self) -> Phase:
        return self.patient.phase

    @property
    def learns(self) -> bool:
        """Whether its samples may teach its baseline."""
        return self.phase in TEACHES and self.streak == 0 and self.wanted_at is None

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.kind for one in self.evidence))

    def count(self, row: int, *, anomalous: bool) -> None:
        """Count a tick of one stream: what is well in one of them clears nothing in another."""
        self.ticks[row] = self.ticks.get(row, 0) + 1
        self.fresh = max(self.ticks.values())
        self.bad += anomalous
        before, self.streaks[row] = self.streak, self.streaks.get(row, 0) + 1 if anomalous else 0
        self.streak = max(self.streaks.values())
        self.longest = max(self.longest, self.streak)
        self.flared = self.flared or (before > 0 and self.streak == 0)

    def overlook(self) -> None:
        """Count nothing that was seen so far."""
        self.streak, self.sigma, self.wanted_at, self.capped = 0, 0.0, None, False
        self.fresh = self.bad = 0
        for counts in (self.failures, self.streaks, self.ticks):
            counts.clear()
        self.evidence.clear()

    def calm(self) -> None:
        """Forget suspicions that are under way, and the run in which they arose."""
        self.overlook()
        self._trail = None

    # --- behaviour -----------------------------------------------------------------------------------------

    def behaves(self, sample: Vitals) -> tuple[list[Evidence], bool]:
        """What an agent's tools and prompt say; and whether that alone is an anomaly."""
        mute = not sample.tools and sample.prompt_hash is None and sample.hearsay is None
        if mute and not (self._alarming() and _run_of(sample) == self._trail_key):
            return [], False
        trail = self._follow(sample)
        signs: list[Sign] = [] if sample.hearsay is None else trail.overhear(sample.hearsay)
        for use in sample.tools:
            signs += trail.call(use.name, use.arguments)
        if self.habits.repeats:
            signs = [sign for sign in signs if sign.kind is not Anomaly.REPEATED_CALL]
        alarming = trail.risk >= ALARM_RISK or (trail.looping and not self.habits.repeats)
        if alarming and not signs:
            signs = [sign for sign in trail.signs if sign.risk >= ALARM_RISK][:1]
        found = [
            Evidence(
                kind=sign.kind.value,
                sigma=BEHAVIOUR_SIGMA if alarming else 0.0,
                at_ms=sample.at_ms,
                why=f"it {sign.why}",
                source=sample.source,
            )
            for sign in signs
        ]
        if self._prompt_changed(sample):
            why = "its system prompt is another one than in all the runs before"
            found.append(Evidence(kind=Anomaly.PROMPT_CHANGE.value, sigma=PROMPT_SIGMA, at_ms=sample.at_ms, why=why))
            alarming = True
        return found, alarming

    def overhear(self, sample: Vitals) -> None:
        """What tools told it, or which it used, in a run: no sign by itself, until it goes on."""
        trail = self._follow(sample)
        for use in sample.tools:
            trail.call(use.name, use.arguments)
        if sample.hearsay is not None:
            trail.overhear(sample.hearsay)

    def _prompt_changed(self, sample: Vitals) -> bool:
        habits = self.habits
        if sample.prompt_hash is None or habits.steady < PROMPT_STEADY_RUNS or sample.prompt_hash == habits.prompt:
            return False
        self._prompt_doubts += 1
        if self._prompt_doubts <= PROMPT_SUSPECT_SAMPLES:
            return True
        self._prompt_doubts = 0
        habits.prompt, habits.steady = sample.prompt_hash, 0
        return False

    def _follow(self, sample: Vitals) -> Trail:
        """The run a sample belongs to; the one before is taken into the habits if all was well."""
        name = _run_of(sample)
        gap = sample.at_ms - self._trail_at_ms
        if self._trail is None or name != self._trail_key or gap > TRAIL_GAP_MS or (not name and self._long()):
            if self._trail is not None and self.learns and (self.phase is Phase.INITIALIZING or not self._alarming()):
                self.habits.learn(self._trail)
                self.dirty = True
            self._trail = self.habits.trail(prompt=sample.prompt_hash)
            self._trail_key = name
        self._trail_at_ms = sample.at_ms
        return self._trail

    def _long(self) -> bool:
        """Without a trace a run has no end of its own."""
        return self._trail is not None and len(self._trail.tools) >= 64

    def _alarming(self) -> bool:
        return self._trail is not None and (self._trail.risk >= ALARM_RISK or self._trail.looping)


def _run_of(sample: Vitals) -> str:
    return sample.trace_id or sample.run_id or ""


def in_words(found: Sequence[Evidence]) -> str:
    """The strongest few of them as a clause; of one kind the strongest says it all."""
    strongest: dict[str, Evidence] = {}
    for one in sorted(found, key=lambda one: -one.sigma):
        strongest.setdefault(one.kind, one)
    return "; ".join(dict.fromkeys(one.why for one in list(strongest.values())[:3])) or "nothing was measured"
