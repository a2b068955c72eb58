"""The whole at a glance over HTTP: what a dashboard shows first, and the past it draws."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import homeostat
from homeostat.app.spending import NOTHING
from homeostat.app.vitals_log import COLUMNS, Tally, row_of
from homeostat.core.clock import Millis, rfc3339
from homeostat.core.errors import AgentUnknown, Unavailable
from homeostat.core.ids import AgentId
from homeostat.core.limits import PAGE_MAX, VITALS_KEPT_MAX
from homeostat.core.records.call import CallFilter, Outlay
from homeostat.core.records.fleet import Census
from homeostat.core.records.immune import ApprovalStatus
from homeostat.core.records.vitals import vitals_of
from homeostat.core.wire import overview as w
from homeostat.core.wire.answers import HeadShape
from homeostat.server import names, render
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.sifting import asked, sifted

routes = Routes("overview")


@routes.plain("GET", "/v1/overview", gives=w.Overview)
async def read_overview(call: Call) -> w.Overview:
    """How everything stands: agents by presence and health, open questions, traffic of the last hour."""
    system, project = call.system, call.project
    phases = Counter(
        system.immune.phase_of((project, member.entry.agent_id))
        for member in system.fleet.registry.members()
        if member.entry.project == project
    )
    try:
        census = await system.fleet.census_of(project)
    except Unavailable:
        census = Census()
    pending = await system.immune.store.approvals(project, status=ApprovalStatus.PENDING, before=None, limit=PAGE_MAX)
    total = Tally()
    for minute in system.vitals_log.minutes(project):
        total.add(minute.total)
    now = system.clock.now_ms()
    return w.Overview(
        at=rfc3339(now),
        project=project,
        version=homeostat.__version__,
        stream=system.feed.stream,
        agents=phases.total(),
        presence={"alive": census.alive, "stale": census.stale, "dead": census.dead},
        phases={phase.value: count for phase, count in phases.items()},
        approvals_pending=len(pending),
        traffic_since=rfc3339(system.vitals_log.began(now)),
        traffic=_traffic(total),
        calls_open=system.gateway.office.in_flight.count_of(project),
        store=system.store_place,
        simulated=any(one.simulated for one in system.settings.upstreams),
    )


@routes.plain("GET", "/v1/traffic", gives=w.TrafficPage)
async def read_traffic(call: Call) -> w.TrafficPage:
    """The last hour of model calls as this process saw it, by minute and by model."""
    log = call.system.vitals_log
    total, models = Tally(), dict[str, Tally]()
    minutes: list[w.MinuteShape] = []
    for minute in log.minutes(call.project):
        for model, tally in minute.models.items():
            models.setdefault(model, Tally()).add(tally)
        counted = minute.total
        total.add(counted)
        minutes.append(w.MinuteShape(at=rfc3339(Millis(minute.minute * 60_000)), **_figures(counted)))
    return w.TrafficPage(
        since=rfc3339(log.began(call.system.clock.now_ms())),
        total=_traffic(total),
        minutes=minutes,
        models={model: _traffic(tally) for model, tally in models.items()},
    )


def _traffic(tally: Tally) -> w.TrafficShape:
    return w.TrafficShape(**_figures(tally))


def _figures(tally: Tally) -> dict[str, Any]:
    return {
        "calls": tally.calls,
        "errors": tally.errors,
        "tokens_in": tally.tokens_in,
        "tokens_out": tally.tokens_out,
        "cost_usd": round(tally.cost_usd, 6),
        "latency_ms_p50": tally.latency_ms(0.5),
        "latency_ms_p95": tally.latency_ms(0.95),
    }


@routes.taking("GET", "/v1/agents/{agent_id}/vitals", w.VitalsQuery, gives=w.VitalsPage, errors=(AgentUnknown,))
async def read_vitals(call: Call, query: w.VitalsQuery) -> w.VitalsPage:
    """An agent's last vitals, oldest first.

    They are kept in memory; what this process has not seen is taken from the call log as far as the gateway has it.
    """
    key = names.agent_key(call)
    await call.system.fleet.require(key[1], key[0])
    rows: list[Sequence[float]] = list(call.system.vitals_log.rows(key))
    if len(rows) < VITALS_KEPT_MAX:
        logged = await call.system.gateway.calls(
            CallFilter(project=key[0], agent_id=key[1]), VITALS_KEPT_MAX - len(rows)
        )
        first = rows[0][0] if rows else math.inf
        before = [row_of(vitals_of(one)) for one in logged]
        rows = [*(row for row in reversed(before) if row[0] < first), *rows]
    return w.VitalsPage(agent_id=key[1], samples=[_sample(row) for row in rows[-query.limit :]])


def _sample(row: Sequence[float]) -> w.VitalsShape:
    known = dict(zip(COLUMNS, row, strict=True))
    at = rfc3339(Millis(int(known.pop("at_ms"))))
    tools, retries, error = int(known.pop("tool_calls")), int(known.pop("retries")), bool(known.pop("error"))
    values = {name: None if math.isnan(value) else value for name, value in known.items()}
    return w.VitalsShape(at=at, tool_calls=tools, retries=retries, error=error, **values)


@routes.taking("GET", "/v1/today", w.TodayQuery, gives=w.TodayPage)
async def list_today(call: Call, query: w.TodayQuery) -> w.TodayPage:
    """What each agent spent since midnight in UTC by the call log, and its last latencies as this process saw them."""
    since, sums = await call.system.spending.today(call.project)
    log = call.system.vitals_log
    known = sorted({*sums, *log.agents(call.project)})
    found = [one for one in known if query.cursor is None or one > query.cursor][: query.limit + 1]
    page = found[: query.limit]
    return w.TodayPage(
        since=rfc3339(since),
        agents=[_today(one, sums.get(one, NOTHING), log.recent((call.project, one), "latency_ms")) for one in page],
        next_cursor=page[-1] if len(found) > query.limit else None,
    )


def _today(agent_id: AgentId, spent: Outlay, latencies: Sequence[float]) -> w.TodayShape:
    return w.TodayShape(
        agent_id=agent_id,
        calls=spent.calls,
        cost_usd=spent.cost_micros / 1e6,
        latency_ms=[None if math.isnan(value) else round(value, 1) for value in latencies],
    )


@routes.taking("GET", "/v1/heads", w.HeadsQuery, gives=w.HeadsPage)
async def list_heads(call: Call, query: w.HeadsQuery) -> w.HeadsPage:
    """The active turn, the gate and the queue of every agent, in order of agents."""

    async def read(after: AgentId | None, limit: int) -> list[HeadShape]:
        return [
            render.head(one) for one in await call.system.kernel.store.heads(call.project, after=after, limit=limit)
        ]

    found, following = await sifted(
        asked(call, "heads", query.q),
        read,
        lambda one: AgentId(one.agent_id),
        cursor=None if query.cursor is None else AgentId(query.cursor),
        limit=query.limit,
    )
    return w.HeadsPage(heads=found, next_cursor=following)
