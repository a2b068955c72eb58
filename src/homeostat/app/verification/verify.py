"""`homeostat verify --all`: one pass over everything there is, page by page, while others go on working."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from homeostat.access.access import Access
from homeostat.app import stores
from homeostat.app.ledgers import open_ledgers
from homeostat.app.settings import Settings
from homeostat.app.verification import announcements, books, isolation, runs, turns
from homeostat.app.verification.findings import Report, Violation, confirmed
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.ids import Ids, ProjectId, scope_floor, turn_of
from homeostat.core.limits import PAGE_MAX
from homeostat.core.ports.access import AccessKeeper
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.ports.immune import EnforcementStore, ImmuneStore
from homeostat.core.ports.runs import RunStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.enforcement import Strategy
from homeostat.core.records.head import Head
from homeostat.core.records.run import Run
from homeostat.core.records.turn import AgentKey
from homeostat.runs.ledgers import Ledgers

LOOK_AGAIN_SECONDS = 0.2
MARGIN_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Archives:
    """Where everything that is to be read is kept."""

    turns: TurnStore
    gateway: GatewayStore
    immune: ImmuneStore
    enforcement: EnforcementStore
    runs: RunStore
    access: AccessKeeper
    ledgers: Ledgers


async def verify_all(settings: Settings, *, clock: Clock | None = None) -> Report:
    """Check the whole history of the store that the settings name. Nothing is changed."""
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        url = settings.store_url or stores.embedded_url(settings.data_dir)
        engine = await stores.open_engine(url)
        stack.push_async_callback(engine.close)
        archives = Archives(
            turns=stores.turn_store(engine),
            gateway=stores.gateway_store(engine),
            immune=stores.immune_store(engine),
            enforcement=stores.enforcement_store(engine),
            runs=stores.run_store(engine),
            access=stores.access_store(engine),
            ledgers=open_ledgers(settings, stores.ledger_store(engine), clock),
        )
        one_clock = url.startswith("sqlite:")  # whoever has a file open is on its machine
        return await Inspection(archives, clock, settings.retention_seconds, one_clock=one_clock).run()


async def _pause() -> None:
    await asyncio.sleep(LOOK_AGAIN_SECONDS)


class Inspection:
    """One pass. What looks wrong is looked at again before it is said: others may have been at work on it."""

    def __init__(self, archives: Archives, clock: Clock, retention_seconds: float, *, one_clock: bool) -> None:
        self._archives = archives
        self._clock = clock
        self._one_clock = one_clock
        margin = min(MARGIN_SECONDS, retention_seconds / 2)
        # Older ones may be forgotten for their age before they are read.
        self._since = turn_of(scope_floor(clock.now_ms() - int((retention_seconds - margin) * 1000)))
        self.report = Report(Counter(dict.fromkeys(("projects", "agents", "turns", "deliverables"), 0)))

    async def run(self) -> Report:
        for project, there in (await self._archives.turns.turns_counted(self._since)).items():
            self.report.counts["projects"] += 1
            await self._turns(project, there)
            await self._budgets(project)
            await self._approvals(project)
            await self._runs(project)
        for about, check in (("heads", turns.always_a_head), ("cards", turns.always_one_deliverable)):
            self.report.add(await confirmed(about, partial(check, self._archives.turns), _pause))
        lost = partial(runs.always_a_run_to_each_ledger, self._archives.runs)
        self.report.add(await confirmed("ledgers", lost, _pause))
        await self._isolated()
        await self._audit()
        await self._announcements()
        return self.report

    async def _announcements(self) -> None:
        store = self._archives.turns
        self.report.counts["announcements that wait"] = len(await store.outbox(announcements.LAST, PAGE_MAX))
        look = partial(announcements.always_one_terminal_event, store)
        self.report.add(await confirmed("outbox", look, _pause))

    async def _turns(self, project: ProjectId, there: int) -> None:
        counts = self.report.counts
        async for head in turns.heads(self._archives.turns, project):
            counts["agents"] += 1
            seen: Counter[str] = Counter()
            self.report.add(await confirmed(head.agent_id, partial(self._agent, head, seen), _pause))
            there -= seen.pop("lately", 0)
            counts.update(seen)
        if there > 0:
            detail = f"{there} turns stand in no agent's history"
            self.report.add([Violation("always_an_unbroken_line", f"project {project}", detail)])

    async def _agent(self, known: Head, seen: Counter[str]) -> list[Violation]:
        store = self._archives.turns
        view = await store.head(known.project, known.agent_id)
        if view is None:
            return [Violation("always_every_turn_is_in_one_place", known.agent_id, "its head is gone")]
        walk = turns.Walk(view.head, await turns.line(store, view.head))
        cards: list[Violation] = []
        ended = lately = 0
        async for page in turns.history(store, view.head):
            walk.take(page)
            cards += await turns.true_cards(store, page)
            ended += sum(one.deliverable is not None for one in page)
            lately += sum(one.turn.turn_id >= self._since for one in page)
        seen.clear()
        seen.update({"turns": walk.turns, "deliverables": ended, "lately": lately})
        return [*walk.close(at_rest=False), *cards, *await turns.always_kept_for_its_time(store, walk)]

    async def _budgets(self, project: ProjectId) -> None:
        async for page in books.budgets(self._archives.gateway, project):
            for account in page:
                self.report.counts["budgets"] += 1
                for check in (books.always_within_the_cap, books.always_what_was_logged_is_spent):
                    look = partial(check, self._archives.gateway, account.key)
                    self.report.add(await confirmed(account.holder, look, _pause))

    async def _approvals(self, project: ProjectId) -> None:
        async for used, found in books.always_a_yes_is_used_once(self._archives.immune, project):
            self.report.counts["incidents"] += 1
            self.report.counts["approvals"] += used
            self.report.add(found)

    async def _runs(self, project: ProjectId) -> None:
        async for run in runs.runs(self._archives.runs, project):
            entries = 0

            async def look(run: Run = run) -> list[Violation]:
                nonlocal entries
                store, turn_store = self._archives.runs, self._archives.turns
                entries, found = await runs.always_a_whole_ledger(store, self._archives.ledgers, run)
                return [*found, *await runs.always_one_turn_for_one_attempt(store, turn_store, run)]

            self.report.add(await confirmed(run.run_id, look, _pause))
            self.report.counts["runs"] += 1
            self.report.counts["ledger entries"] += entries

    async def _isolated(self) -> None:
        now = self._clock.now_ms()
        store, one_clock = self._archives.immune, self._one_clock
        stepped, unsettled = await store.stepped(), await store.unsettled()
        for agent in [*stepped, *sorted(unsettled.keys() - set(stepped))]:
            spans: list[isolation.Span] = []
            async for span in isolation.closed_spans(store, agent, now):
                self.report.counts["quarantines"] += 1
                served = isolation.always_the_isolated_are_not_served
                self.report.add(await served(self._archives.gateway, agent, span, one_clock=one_clock))
                spans += [span] * (len(spans) < isolation.SPANS_MAX)
            if spans or agent in unsettled:
                self.report.add(await confirmed(agent[1], partial(self._held, agent, spans), _pause))

    async def _held(self, agent: AgentKey, spans: list[isolation.Span]) -> list[Violation]:
        store, enforcement = self._archives.turns, self._archives.enforcement
        found = await isolation.always_the_held_stay_held(self._archives.immune, agent)
        found += await isolation.always_a_closed_gate(enforcement, store, agent)
        if any(hold.strategy is Strategy.KERNEL for hold in await enforcement.holds_of(agent)):
            idle = isolation.always_the_isolated_do_nothing
            found += await idle(store, agent, spans, one_clock=self._one_clock)
        return found

    async def _audit(self) -> None:
        access = Access(store=self._archives.access, clock=self._clock, ids=Ids(clock=self._clock), required=False)
        verdict = await access.verify()
        self.report.counts["acts of operators"] = verdict.entries
        if verdict.broken_at is not None:
            self.report.add([Violation("always_a_whole_audit_log", f"entry {verdict.broken_at}", verdict.problem)])
