"""Tells one sick agent from a sick provider: who else shows the same, among those that are comparable."""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.immune import Spread
from homeostat.core.records.turn import AgentKey
from homeostat.immune.vitals import Anomaly

EVERYBODY: Final = "fleet"
HOST: Final = "host "
MACHINES_CAUSE: Final = frozenset(
    {Anomaly.LATENCY_SPIKE, Anomaly.ERROR_SPIKE, Anomaly.RETRY_SPIKE, Anomaly.DRIFT, Anomaly.STUCK}
)
"""What agents may show because of the machine they run on. It makes none of them use another tool or spend more."""
COHORTS_MAX: Final = 16_384  # tags are the agents' own words


class Cohort(NamedTuple):
    """Agents that are comparable: of one project, or of all of them where what they share is a model or its provider.

    What agents say of themselves, as types and tags, tells nothing of those of others.
    """

    name: str
    project: ProjectId | None = None

    def explains(self, kind: str) -> bool:
        """Whether what its members share may be why they show something."""
        return kind in MACHINES_CAUSE or not self.name.startswith(HOST)


NOBODY: Final = Cohort("")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far something has spread, and in which cohort it shows most."""

    spread: Spread
    cohort: Cohort = NOBODY
    kind: str = ""
    affected: int = 0
    comparable: int = 0

    @property
    def share(self) -> float:
        return self.affected / self.comparable if self.comparable else 0.0


class _Recent:
    """Agents in the order in which they were last seen; the old ones leave as new ones come."""

    __slots__ = ("_seen", "_window")

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._seen: OrderedDict[AgentKey, float] = OrderedDict()

    def see(self, agent: AgentKey, now: float) -> None:
        self._seen[agent] = now
        self._seen.move_to_end(agent)

    def drop(self, agent: AgentKey) -> None:
        self._seen.pop(agent, None)

    def count(self, now: float) -> int:
        while self._seen and next(iter(self._seen.values())) <= now - self._window:
            self._seen.popitem(last=False)
        return len(self._seen)

    def agents(self) -> tuple[AgentKey, ...]:
        return tuple(self._seen)


class Correlator:
    """Counts by cohort and kind of anomaly. A verdict looks at the agent's own cohorts and at nothing else.

    >>> from homeostat.core.ids import AgentId, ProjectId
    >>> agents = [(ProjectId("p"), AgentId(f"a{i}")) for i in range(10)]
    >>> correlator = Correlator(window_seconds=60)
    >>> fleet = Cohort("fleet", ProjectId("p"))
    >>> for agent in agents:
    ...     correlator.active(agent, [fleet], 0.0)
    >>> for agent in agents[:4]:
    ...     correlator.affected(agent, [fleet], ["latency_spike"], 0.0)
    >>> correlator.verdict([fleet], ["latency_spike"], 1.0).spread.value
    'fleet_wide'
    """

    def __init__(self, *, window_seconds: float, share: float = 0.30, least: int = 3) -> None:
        self._window = window_seconds
        self._share = share
        self._least = least
        self._active: OrderedDict[Cohort, _Recent] = OrderedDict()
        self._affected: OrderedDict[tuple[Cohort, str], _Recent] = OrderedDict()

    def active(self, agent: AgentKey, cohorts: Collection[Cohort], now: float) -> None:
        """An agent was heard: from now on it is one that could show something."""
        for cohort in cohorts:
            if (recent := self._active.get(cohort)) is None:
                recent = self._active[cohort] = _Recent(self._window)
                if len(self._active) > COHORTS_MAX:
                    self._active.popitem(last=False)
            recent.see(agent, now)

    def heard(self, project: ProjectId, now: float) -> int:
        """How many agents of a project were heard of late."""
        everybody = self._active.get(Cohort(EVERYBODY, project))
        return 0 if everybody is None else everybody.count(now)

    def affected(self, agent: AgentKey, cohorts: Collection[Cohort], kinds: Collection[str], now: float) -> None:
        """An agent shows something."""
        for cohort in cohorts:
            for kind in filter(cohort.explains, kinds):
                if (recent := self._affected.get((cohort, kind))) is None:
                    recent = self._affected[cohort, kind] = _Recent(self._window)
                    if len(self._affected) > COHORTS_MAX:
                        self._affected.popitem(last=False)
                recent.see(agent, now)

    def verdict(self, cohorts: Collection[Cohort], kinds: Collection[str], now: float) -> Verdict:
        """How far what an agent shows has spread; of several cohorts, the one it fills most."""
        best = Verdict(Spread.AGENT_SPECIFIC)
        for cohort in cohorts:
            if (active := self._active.get(cohort)) is None:
                continue
            comparable = active.count(now)
            for kind in kinds:
                if (recent := self._affected.get((cohort, kind))) is None:
                    continue
                affected = min(recent.count(now), comparable)
                found = Verdict(self._spread(affected, comparable), cohort, kind, affected, comparable)
                if _weight(found) > _weight(best):
                    best = found
        return best

    def _spread(self, affected: int, comparable: int) -> Spread:
        enough = affected >= self._least or affected == comparable >= 2
        if enough and affected >= self._share * comparable:
            return Spread.FLEET_WIDE
        return Spread.PARTIAL if affected >= 2 else Spread.AGENT_SPECIFIC

    def agents(self, verdict: Verdict, project: ProjectId) -> tuple[list[AgentId], int]:
        """Who of a project shows what a verdict is about, and of how many: no project is told of another's."""
        affected, active = self._affected.get((verdict.cohort, verdict.kind)), self._active.get(verdict.cohort)
        hit = [agent_id for owner, agent_id in affected.agents() if owner == project] if affected is not None else []
        there = sum(owner == project for owner, _ in active.agents()) if active is not None else 0
        return sorted(hit), max(there, len(hit))


_ORDER: Final = {Spread.AGENT_SPECIFIC: 0, Spread.PARTIAL: 1, Spread.FLEET_WIDE: 2}


def _weight(verdict: Verdict) -> tuple[int, int, float]:
    """The widest spread first, then whoever hits most agents; between equals the tighter cohort names the cause."""
    return _ORDER[verdict.spread], verdict.affected, verdict.share
