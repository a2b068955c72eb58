"""A simulated fleet that lives beside a real server: it works, falls ill now and then, and is healed."""

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from msgspec import Raw

from homeostat.adapters.upstreams.simulated import Pace
from homeostat.adapters.upstreams.simulated.faults import Faults, FaultyUpstream
from homeostat.agent.models import Models
from homeostat.agent.worker import Worker
from homeostat.app.assemble import System
from homeostat.app.holding import StandIns
from homeostat.app.inner_gateway import InnerGateway
from homeostat.app.upstreams import UpstreamSetting
from homeostat.client.keys import KeyRing
from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import to_json
from homeostat.core.errors import Conflict, Refused
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, chance
from homeostat.core.limits import PUSH_INTERVAL_SECONDS_DEFAULT
from homeostat.core.machines.phase import Phase
from homeostat.core.machines.run import RUN, RunStatus
from homeostat.core.ports.upstream import UpstreamRequest
from homeostat.core.records.access import Act as AuditedAct
from homeostat.core.records.access import AuditOutcome
from homeostat.core.records.fleet import AgentStatus, ReportedStatus
from homeostat.core.records.immune import ApprovalStatus, Diagnosis, RemedyAction
from homeostat.core.records.run import Bounds, PauseCause, RunConfig, Target, TargetKind, TaskSpec
from homeostat.core.records.turn import AgentKey, MessageType
from homeostat.fleet.registry import Introduction
from homeostat.gateway.routes import Family
from homeostat.kernel.commands import Enqueue
from homeostat.runs.control import Act
from homeostat.testing.ailments import PAGES, POISONED, SEARCH, Ailment, Pharmacy, reading
from homeostat.testing.clinic import WORDS
from homeostat.testing.gateways import Booth, Keys
from homeostat.testing.villager import MODEL, Villager

log = logging.getLogger(__name__)

TYPES: Final = ("researcher", "support", "billing")
AGENTS: Final = 14
HOSTS: Final = 3
VERSIONS: Final = ("1.4.0", "1.4.0", "1.4.0", "1.5.0-rc1")
NAME: Final = "demo"  # their tag, and the upstream that answers them: whatever else is configured, they spend nothing
STOP_SECONDS: Final = 1.0  # for turns under way when all of it ends
ANSWER_TOKENS_MAX: Final = 4_000
READERS: Final = 4  # the first so many read pages with a tool
LEARNING_CALLS: Final = 40  # made at once, so that it is soon known what is normal
WORK_SECONDS: Final = 2.0
FIRST_INCIDENT_SECONDS: Final = 10.0
INCIDENT_SECONDS: Final = 90.0
ANSWER_SECONDS: Final = 80.0  # how long a question waits for you before the simulated operator answers it
OPERATOR: Final = "simulated operator"
UNASKED: Final = "nobody else answered"
RUN_SECONDS: Final = 150.0
HELD_MAX: Final = 20  # runs that are looked through for those that wait
GOALS: Final = ("Sum up yesterday's tickets", "Find out why refunds went up", "Draft the weekly report")
PUBLISH: Final = "publish"
BOUNDS: Final = Bounds(tokens=20_000, micros=50_000, seconds=3_600.0)
WAITING_MAX: Final = 20  # messages that pile up for an agent that is isolated
PACE: Final = Pace(first_token_seconds=0.05, token_seconds=0.002)
R = RemedyAction


def ailments() -> dict[str, Ailment]:
    """Who falls ill with what, again and again."""
    looping = {"question": "find it", "tools": SEARCH, "tool_choice": "required"}
    return {
        "support-05": Ailment(Diagnosis.PROMPT_DRIFT, R.RESET_MEMORY, Faults(tokens=60)),
        "researcher-01": Ailment(Diagnosis.PROMPT_INJECTION, R.REVOKE_TOOLS, asked=reading("researcher-01", POISONED)),
        "billing-06": Ailment(Diagnosis.COST_OVERRUN, R.REDUCE_AUTONOMY, asked={"model": "gpt-4"}),
        "researcher-07": Ailment(Diagnosis.INFINITE_LOOP, R.REVOKE_TOOLS, asked=looping, calls=5),
        "support-08": Ailment(Diagnosis.TOOL_INSTABILITY, R.ROLLBACK_PROMPT, Faults(error=500)),
        "billing-09": Ailment(Diagnosis.MEMORY_CORRUPTION, R.RESET_MEMORY, asked={"question": " ".join(WORDS * 200)}),
        "researcher-10": Ailment(Diagnosis.EXTERNAL_CAUSE, R.RESET_AGENT, Faults(latency=8.0)),
    }


class Village:
    """Agents that live until they are cancelled. Their faults are theirs: what watches them sees only what they do."""

    def __init__(self, clock: Clock, *, keys_file: Path | None = None) -> None:
        self._clock = clock
        self._ill = ailments()
        self._keys = KeyRing(keys_file, url=NAME)
        self._calls = 0
        self._done: dict[str, int] = {}
        self.names: Final = [f"{TYPES[number % len(TYPES)]}-{number + 1:02d}" for number in range(AGENTS)]
        upstream = FaultyUpstream(pace=PACE, clock=clock, plan=self._plan)
        self.upstream: Final = UpstreamSetting(name=NAME, family=Family.OPENAI, url="")
        pharmacy = Pharmacy(self._ill, patients=frozenset(self.names))
        self.stand_ins: Final = StandIns(remedies=pharmacy, simulated=upstream)

    def _plan(self, request: UpstreamRequest) -> Faults | None:
        body = request.body if isinstance(request.body, bytes) else b""
        for name, ailment in self._ill.items():
            if ailment.sick and ailment.faults is not None and b"I am %s:" % name.encode() in body:
                return ailment.faults
        return None

    async def live(self, system: System) -> None:
        """Enrol, learn, then work, beat, fall ill and be asked about, side by side."""
        self._keys.open()
        for number, name in enumerate(self.names):
            host, version = f"{NAME}-{number % HOSTS + 1}", VERSIONS[number % len(VERSIONS)]
            said = Introduction(agent_type=name.split("-")[0], tags=(NAME,), hostname=host, version=version)
            enrolled = await system.enrol(said, AgentId(name), key=self._keys.get(_key(name)))
            self._keys.keep(_key(name), enrolled.api_key)
        new = [name for name in self.names if system.immune.phase_of(_key(name)) is Phase.INITIALIZING]
        for _ in range(LEARNING_CALLS):
            await asyncio.gather(*(self._call(system, name) for name in new))
        async with asyncio.TaskGroup() as group:
            for loop in (self._talk, self._work, self._beat, self._strive, self._sicken, self._answer):
                group.create_task(loop(system))

    # --- work ----------------------------------------------------------------------------------------------

    async def _talk(self, system: System) -> None:
        """Messages come in at a steady pace."""
        while True:
            for name in self.names:
                await asyncio.sleep(WORK_SECONDS / len(self.names))
                head = await system.kernel.store.head(*_key(name))
                if head is None or head.head.queued < WAITING_MAX:
                    await system.kernel.enqueue(
                        Enqueue(key=_key(name), type=MessageType.TURN, payload=to_json("your turn"))
                    )

    async def _work(self, system: System) -> None:
        """One worker hosts them all, as a real one would: what they do in a run is recorded and can be replayed."""
        models = Models(InnerGateway(system.gateway.application, DEFAULT_PROJECT, prefix=f"/{NAME}"))
        worker = Worker(source=system.turns, models=models)

        async def chat(name: str) -> None:
            ailment = self._ill.get(name)
            for _ in range(ailment.calls if ailment is not None and ailment.sick else 1):
                await self._call(system, name)
            self._done[name] = self._done.get(name, 0) + 1

        for name in self.names:
            worker.host(name, lambda: Villager(chat))
        await worker.run(stop_seconds=STOP_SECONDS)

    async def _call(self, system: System, name: str) -> None:
        self._calls += 1
        luck, ailment = chance(name, self._calls), self._ill.get(name)
        asked: dict[str, Any] = {}
        if ailment is not None and ailment.sick and ailment.asked:
            asked = dict(ailment.asked)
        elif self.names.index(name) < READERS:
            asked = reading(name, luck.choice(PAGES))
        question = asked.pop("question", None) or " ".join(luck.choice(WORDS) for _ in range(luck.randint(8, 40)))
        booth = Booth(system.gateway, Keys({}), system.bus, system.gateway.store, FaultyUpstream())
        said = [{"role": "user", "content": f"I am {name}: {question}"}]
        body = {"model": MODEL, "max_tokens": ANSWER_TOKENS_MAX, "messages": said, **asked}
        await booth.call(f"/{NAME}/v1/chat/completions", body, key=self._keys.get(_key(name)))

    async def _beat(self, system: System) -> None:
        """Each as often as it is told to."""
        began = self._clock.now_ms()
        due, every = dict.fromkeys(self.names, began), dict.fromkeys(self.names, PUSH_INTERVAL_SECONDS_DEFAULT)
        while True:
            for name in self.names:
                member = system.fleet.registry.get(AgentId(name))
                if member is not None and due[name] <= self._clock.now_ms():
                    told = await system.fleet.beat(member, self._status(name, began, every[name]))
                    every[name] = told.interval.seconds
                    due[name] = Millis(told.received_ms + told.interval.ms)
            await asyncio.sleep(1.0)

    def _status(self, name: str, began: Millis, every: float) -> AgentStatus:
        now = self._clock.now_ms()
        return AgentStatus(
            agent_id=AgentId(name),
            agent_type=name.split("-", maxsplit=1)[0],
            tags=(NAME,),
            timestamp=_instant(now),
            started_at=_instant(began),
            uptime_seconds=(now - began) / 1000,
            status=ReportedStatus.RUNNING,
            last_action="answered a message",
            items_processed=self._done.get(name, 0),
            queue_depth=0,
            processing_time_avg_ms=300.0,
            error_count=0,
            memory_mb=64.0,
            push_interval_seconds=every,
        )

    async def _strive(self, system: System) -> None:
        """A goal is set now and then; its last task waits for somebody's word."""
        for goal in cycle(GOALS):
            going = await system.runs.store.runs(DEFAULT_PROJECT, status=None, before=None, limit=1)
            if not going or going[0].status in RUN.final or going[0].paused is PauseCause.GATE:
                config = RunConfig(goal=goal, seed=self._calls, bounds=BOUNDS)
                with suppress(Refused, Conflict):  # somebody has pressed the red button
                    await system.runs.control.create(DEFAULT_PROJECT, config, _tasks(), actor=OPERATOR)
            await asyncio.sleep(RUN_SECONDS)

    # --- illness -------------------------------------------------------------------------------------------

    async def _sicken(self, system: System) -> None:
        """One after the other falls ill, if it is well."""
        await asyncio.sleep(FIRST_INCIDENT_SECONDS)
        for name, ailment in cycle(self._ill.items()):
            if system.immune.phase_of(_key(name)) is Phase.HEALTHY:
                ailment.fall_ill(self._clock.monotonic())
            await asyncio.sleep(INCIDENT_SECONDS)

    async def _answer(self, system: System) -> None:
        """Somebody has to: questions that nobody answered for a while are."""
        immune = system.immune
        while True:
            await asyncio.sleep(1.0)
            waiting = await immune.store.approvals(
                DEFAULT_PROJECT, status=ApprovalStatus.PENDING, before=None, limit=50
            )
            for one in waiting:
                if self._clock.now_ms() - one.asked_at_ms > ANSWER_SECONDS * 1000:
                    with suppress(Conflict):  # you were faster
                        await immune.approvals.approve(DEFAULT_PROJECT, one.approval_id, reason=UNASKED, actor=OPERATOR)
                        await self._note(system, "approve", f"approval/{one.approval_id}")
            await self._let_runs_go_on(system)

    async def _let_runs_go_on(self, system: System) -> None:
        """The newest goes on waiting, so that there is always something to say yes to."""
        paused = await system.runs.store.runs(DEFAULT_PROJECT, status=RunStatus.PAUSED, before=None, limit=HELD_MAX)
        held = [run for run in paused if run.paused is PauseCause.GATE and run.created_by == OPERATOR]
        for run in held[1:]:
            waited_ms = self._clock.now_ms() - run.moved.at_ms
            if waited_ms > ANSWER_SECONDS * 1000:
                with suppress(Conflict):  # you were faster
                    key = (DEFAULT_PROJECT, run.run_id)
                    who = Act(actor=OPERATOR, reason=UNASKED)
                    await system.runs.control.answer(key, PUBLISH, approve=True, who=who)
                    await self._note(system, "approve_task", f"task/{run.run_id}/{PUBLISH}")

    async def _note(self, system: System, verb: str, thing: str) -> None:
        """Who answers for others is in the audit log, simulated or not."""
        await system.access.store.append(
            AuditedAct(
                at_ms=self._clock.now_ms(),
                actor=OPERATOR,
                verb=verb,
                object=thing,
                project=DEFAULT_PROJECT,
                outcome=AuditOutcome.DONE,
                reason=UNASKED,
            )
        )


def _tasks() -> list[TaskSpec]:
    """Three read, one checks, and what comes of it is published once somebody agrees."""

    def task(name: str, agent: str, *after: str, approval: bool = False) -> TaskSpec:
        target = Target(TargetKind.AGENT, agent)
        return TaskSpec(name=name, target=target, input=Raw(to_json(name).encode()), after=after, approval=approval)

    return [
        task("read tickets", "support-02"),
        task("read invoices", "billing-03"),
        task("look it up", "researcher-04"),
        task("check", "support-11", "read tickets", "read invoices", "look it up"),
        task(PUBLISH, "researcher-13", "check", approval=True),
    ]


def _instant(at: Millis) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)


def _key(name: str) -> AgentKey:
    return (DEFAULT_PROJECT, AgentId(name))
