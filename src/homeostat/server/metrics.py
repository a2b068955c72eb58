"""What the server counts, in Prometheus' form. Labels are route templates and status codes, never anybody's ids."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from homeostat.app.assemble import System
from homeostat.core.clock import StoreClock
from homeostat.core.records.fleet import Census
from homeostat.gateway.gateway import Gateway
from homeostat.server.endpoints import Endpoint
from homeostat.server.immune_metrics import ImmuneCollector
from homeostat.server.patience import Patience

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
ELSEWHERE: Final = "elsewhere"  # every path that is no endpoint's shares one label


class Metrics:
    """The counters of one server."""

    def __init__(self, system: System, patience: Patience) -> None:
        disable_created_metrics()  # they would double the number of series and say nothing
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "homeostat_http_requests", "Requests answered", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "homeostat_http_request_seconds",
            "Time to answer a request, the time it was held open included",
            ("route",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.registry.register(KernelCollector(system, patience))
        self.registry.register(GatewayCollector(system.gateway))
        self.registry.register(ImmuneCollector(system))
        self.heartbeats = Tally()
        self.fleet = FleetCollector(system, self.heartbeats)
        self.registry.register(self.fleet)
        self._counts: dict[tuple[str, str, int], Counter] = {}
        self._times: dict[str, Histogram] = {}

    def answered(self, endpoint: Endpoint | None, method: str, status: int, seconds: float) -> None:
        """Count one answer."""
        route = ELSEWHERE if endpoint is None else endpoint.path
        key = (method if endpoint is not None else ELSEWHERE, route, status)
        counter = self._counts.get(key)
        if counter is None:
            counter = self._counts[key] = self._requests.labels(key[0], route, str(status))
        counter.inc()
        histogram = self._times.get(route)
        if histogram is None:
            histogram = self._times[route] = self._seconds.labels(route)
        histogram.observe(seconds)


class Tally:
    """Counts what is answered the short way, at a fraction of what a histogram costs."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def family(self, name: str, words: str) -> HistogramMetricFamily:
        bounds = [*map(str, BUCKETS), "+Inf"]
        return HistogramMetricFamily(
            name, words, buckets=list(zip(bounds, accumulate(self._counts), strict=True)), sum_value=self._sum
        )


class FleetCollector(Collector):
    """The fleet in numbers. How many agents are how is asked beforehand, for the answer may come from elsewhere."""

    def __init__(self, system: System, tally: Tally) -> None:
        self._fleet = system.fleet
        self._tally = tally
        self.census: Census | None = None

    def collect(self) -> Iterator[Metric]:
        fleet = self._fleet
        if self.census is not None:
            agents = GaugeMetricFamily("homeostat_agents", "Registered agents", labels=("presence",))
            agents.add_metric(("alive",), self.census.alive)
            agents.add_metric(("stale",), self.census.stale)
            agents.add_metric(("dead",), self.census.dead)
            yield agents
        yield CounterMetricFamily("homeostat_heartbeats", "Heartbeats taken", fleet.heartbeats.taken)
        yield self._tally.family("homeostat_heartbeat_seconds", "Time to answer a heartbeat that was in order")
        marked = CounterMetricFamily("homeostat_agents_marked", "Verdicts of the sweep", labels=("presence",))
        for presence, count in fleet.sweeper.marked.items():
            marked.add_metric((presence.value,), count)
        yield marked
        yield GaugeMetricFamily("homeostat_sweep_seconds", "How long the last sweep took", fleet.sweeper.last_seconds)
        yield CounterMetricFamily("homeostat_feed_updates", "Updates in the live feed", fleet.broadcaster.seq)
        yield GaugeMetricFamily("homeostat_feed_readers", "Readers of the live feed", fleet.broadcaster.readers)
        yield CounterMetricFamily(
            "homeostat_feed_resyncs", "Readers that fell behind and were given a snapshot", fleet.broadcaster.resyncs
        )


class GatewayCollector(Collector):
    """Model calls by how they ended. The codes are ours and few; models and agents are not labels."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterator[Metric]:
        office, clerk = self._gateway.office, self._gateway.clerk
        calls = CounterMetricFamily("homeostat_gateway_calls", "Model calls that ended", labels=("outcome", "code"))
        for (outcome, code), count in sorted(office.counters.items()):
            calls.add_metric((outcome.value, code), count)
        yield calls
        yield GaugeMetricFamily("homeostat_gateway_calls_open", "Model calls under way", office.in_flight.total)
        yield CounterMetricFamily("homeostat_gateway_postings", "Writes to the ledger", clerk.postings)
        yield CounterMetricFamily(
            "homeostat_gateway_calls_dropped", "Rows the call log lost while the store was away", clerk.calls_dropped
        )
        yield GaugeMetricFamily("homeostat_gateway_policies_version", "Policies in force", self._gateway.book.version)
        clock = self._gateway.clock
        offset_seconds = clock.offset_ms / 1000 if isinstance(clock, StoreClock) else 0.0
        words = "How far the store's clock is ahead of this machine's, where it is used instead"
        yield GaugeMetricFamily("homeostat_clock_offset_seconds", words, offset_seconds)


class KernelCollector(Collector):
    """Reads the rooms' own counts when somebody asks."""

    def __init__(self, system: System, patience: Patience) -> None:
        self._system = system
        self._patience = patience

    def collect(self) -> Iterator[Metric]:
        kernel, supervisor = self._system.kernel, self._system.supervisor
        yield CounterMetricFamily("homeostat_flush_commits", "Transactions committed", kernel.flusher.commits)
        yield CounterMetricFamily("homeostat_flush_conflicts", "Flushes decided anew", kernel.flusher.conflicts)
        yield CounterMetricFamily("homeostat_events_published", "Events announced", kernel.relay.published)
        yield GaugeMetricFamily("homeostat_workers", "Workers with a berth here", len(kernel.dock))
        yield GaugeMetricFamily("homeostat_http_requests_held", "Requests held open", len(self._patience))
        failures = CounterMetricFamily("homeostat_loop_failures", "Times a loop began again", labels=("loop",))
        for child in supervisor.children:
            failures.add_metric((child.title,), child.failures)
        yield failures
