"""Which remedy is tried next: the ladder of a diagnosis, reordered by what worked in the fleet."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from homeostat.core.clock import Millis
from homeostat.core.records.immune import Diagnosis, Hypothesis, Lesson, RemedyAction
from homeostat.core.records.turn import AgentKey

D, R = Diagnosis, RemedyAction

Step = tuple[Diagnosis, RemedyAction]

LADDERS: Final[dict[Diagnosis, tuple[RemedyAction, ...]]] = {
    D.PROMPT_DRIFT: (R.RESET_MEMORY, R.ROLLBACK_PROMPT, R.REDUCE_AUTONOMY, R.RESET_AGENT),
    D.PROMPT_INJECTION: (R.REVOKE_TOOLS, R.RESET_MEMORY, R.ROLLBACK_PROMPT, R.RESET_AGENT),
    D.INFINITE_LOOP: (R.REVOKE_TOOLS, R.REDUCE_AUTONOMY, R.RESET_MEMORY, R.RESET_AGENT),
    D.TOOL_INSTABILITY: (R.REDUCE_AUTONOMY, R.ROLLBACK_PROMPT, R.RESET_AGENT),
    D.MEMORY_CORRUPTION: (R.RESET_MEMORY, R.RESET_AGENT),
    D.COST_OVERRUN: (R.REDUCE_AUTONOMY, R.ROLLBACK_PROMPT, R.RESET_MEMORY, R.RESET_AGENT),
    D.EXTERNAL_CAUSE: (R.REDUCE_AUTONOMY, R.RESET_AGENT),
    D.UNKNOWN: (R.RESET_MEMORY, R.REDUCE_AUTONOMY, R.RESET_AGENT),
}
COSTS: Final[dict[RemedyAction, float]] = {R.RESET_AGENT: 2.0}  # all that an agent knew is gone; the others cost 1


class Experience:
    """What was learned of remedies: per agent what failed, over the fleet what helped.

    >>> from homeostat.core.ids import AgentId, ProjectId
    >>> lesson = Lesson(project=ProjectId("p"), agent_id=AgentId("a"), diagnosis=D.PROMPT_DRIFT,
    ...                 action=R.ROLLBACK_PROMPT, cured=5)
    >>> [action.value for action in Experience([lesson]).ladder(D.PROMPT_DRIFT)]
    ['rollback_prompt', 'reset_memory', 'reduce_autonomy', 'reset_agent']
    """

    def __init__(self, lessons: Iterable[Lesson] = ()) -> None:
        self._fleet: defaultdict[tuple[Diagnosis, RemedyAction], list[int]] = defaultdict(lambda: [0, 0])
        self._failed: dict[tuple[AgentKey, Diagnosis, RemedyAction], Millis] = {}
        for lesson in lessons:
            self.learn(lesson)

    def learn(self, lesson: Lesson) -> None:
        counts = self._fleet[lesson.diagnosis, lesson.action]
        counts[0] += lesson.cured
        counts[1] += lesson.failed
        if lesson.failed:
            agent = (lesson.project, lesson.agent_id)
            self._failed[agent, lesson.diagnosis, lesson.action] = lesson.failed_at_ms

    def ladder(self, diagnosis: Diagnosis) -> tuple[RemedyAction, ...]:
        """The ladder, best first; what nobody has tried keeps its place between what helped and what did not."""
        return tuple(sorted(LADDERS[diagnosis], key=lambda action: -self.promise(diagnosis, action)))

    def promise(self, diagnosis: Diagnosis, action: RemedyAction) -> float:
        """How likely a remedy is to help, for what it costs."""
        cured, failed = self._fleet[diagnosis, action]
        return (cured + 1) / (cured + failed + 2) / COSTS.get(action, 1.0)

    def failed(self, agent: AgentKey, diagnosis: Diagnosis, action: RemedyAction, *, since: Millis) -> bool:
        """Whether this was tried on this agent against this, in vain, since its last fresh start."""
        at = self._failed.get((agent, diagnosis, action))
        return at is not None and at > since

    def rungs(
        self, agent: AgentKey, hypotheses: Sequence[Hypothesis], tried: Iterable[Step], *, since: Millis
    ) -> Iterator[Step]:
        """The remedies that have not failed, those of the likeliest hypothesis first."""
        done = set(tried)
        for hypothesis in hypotheses:
            for action in self.ladder(hypothesis.diagnosis):
                step = (hypothesis.diagnosis, action)
                if step not in done and not self.failed(agent, *step, since=since):
                    yield step

    def counts(self) -> list[tuple[Diagnosis, RemedyAction, int, int]]:
        """What the fleet has learned, in order of diagnoses."""
        return [(*step, counts[0], counts[1]) for step, counts in sorted(self._fleet.items()) if any(counts)]
