"""What the immune system takes in, refuses, decides and does, in Prometheus' form."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from homeostat.app.assemble import System
from homeostat.core.machines.phase import Phase

SOURCES: Final = ("gateway", "turn", "report", "otlp", "hearsay")
OTHER: Final = "other"


class ImmuneCollector(Collector):
    """Labels are our own words: phases, remedies, answers, reasons. No agent is one."""

    def __init__(self, system: System) -> None:
        self._immune = system.immune
        self._hearing = system.gateway.hearing

    def collect(self) -> Iterator[Metric]:
        yield from self._samples()
        yield from self._decisions()
        yield from self._work()

    def _samples(self) -> Iterator[Metric]:
        intake, hearing = self._immune.intake, self._hearing
        taken = Counter[str]()
        for source, count in intake.accepted.items():
            taken[source if source in SOURCES else OTHER] += count
        yield _counter("samples", "Vital signs taken in", ("source",), {(source,): n for source, n in taken.items()})
        refused = {(reason,): n for reason, n in intake.refused.items()}
        yield _counter("samples_refused", "Vital signs that were not believed, or not taken in", ("reason",), refused)
        heard = {("heard",): hearing.heard, ("unheard",): hearing.unheard}
        yield _counter("tool_results", "Calls whose tool results were looked at", ("looked",), heard)

    def _decisions(self) -> Iterator[Metric]:
        counts = self._immune.counts
        agents = GaugeMetricFamily("homeostat_immune_agents", "Agents under watch", labels=("phase",))
        phases = Counter(watch.phase for watch in self._immune.ward.watches.values())
        for phase in Phase:
            agents.add_metric((phase.value,), phases[phase])
        yield agents
        steps = {(event.value, phase.value): n for (event, phase), n in counts.steps.items()}
        yield _counter("phase_changes", "Changes of an agent's phase", ("event", "phase"), steps)
        asked = {(status.value,): n for status, n in counts.approvals.items()}
        yield _counter("approvals", "Questions to operators, by what became of them", ("status",), asked)
        said = {(cause.value,): n for cause, n in counts.feedback.items()}
        yield _counter("feedback", "What operators said of diagnoses", ("cause",), said)
        yield CounterMetricFamily("homeostat_immune_alerts", "Troubles of the fleet that were told", counts.alerts)
        yield CounterMetricFamily(
            "homeostat_immune_capped", "Agents left running as too many were isolated", counts.capped
        )
        treated = {(action.value, applied.value): n for (action, applied), n in counts.treated.items()}
        yield _counter("treatments", "Remedies given", ("action", "applied"), treated)
        judged = {(action.value, "cured" if cured else "failed"): n for (action, cured), n in counts.judged.items()}
        yield _counter("probations", "What probation said of remedies", ("action", "verdict"), judged)

    def _work(self) -> Iterator[Metric]:
        immune, counts = self._immune, self._immune.counts
        yield GaugeMetricFamily("homeostat_immune_leading", "Whether this process decides", float(immune.leading))
        yield CounterMetricFamily("homeostat_immune_ticks", "Passes over the fleet", counts.ticks)
        yield CounterMetricFamily("homeostat_immune_scored", "Vital signs scored", counts.scored)
        yield GaugeMetricFamily("homeostat_immune_tick_seconds", "How long the last pass took", counts.tick_seconds)
        yield CounterMetricFamily("homeostat_immune_forgotten", "Agents that left and are forgotten", counts.forgotten)


def _counter(name: str, words: str, labels: tuple[str, ...], values: dict[tuple[str, ...], int]) -> Metric:
    family = CounterMetricFamily(f"homeostat_immune_{name}", words, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family
