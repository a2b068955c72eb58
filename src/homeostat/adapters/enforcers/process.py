"""Holds agents that are processes of this machine: stopped as a tree, by handles that cannot name somebody else."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from homeostat.adapters.enforcers import cgroup, proc
from homeostat.adapters.enforcers.proc import Named
from homeostat.adapters.enforcers.workless import Workless
from homeostat.core.clock import Clock
from homeostat.core.enforcement_errors import CustodyRefused, CustodyTaken, ProcessGone
from homeostat.core.ports.immune import EnforcementStore
from homeostat.core.records.enforcement import Custody, Mandate, Reading, Strategy
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire.custody import OrderWord

ROUNDS_MAX: Final = 8  # a child that was begun while its siblings were stopped is found in the next round
STOP_SECONDS: Final = 1.0
TERM_SECONDS: Final = 2.0
KILL_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.02


class _Held:
    """One custody, and everybody who was ever seen to belong to it: who leaves the tree is still known."""

    def __init__(self, custody: Custody) -> None:
        self.custody = custody
        self.root = Named(custody.pid, custody.started)
        self.group = cgroup.Group(Path(custody.cgroup)) if custody.cgroup else None
        self.seen: set[Named] = set()
        self.mark = proc.mark(self.root, custody.boot_id)
        self.told_to_drain: set[Named] = set()

    def members(self) -> list[Named]:
        """Whoever is to be held now: the tree, whoever left it, and whoever is in its group; never us or ours."""
        self.seen = {one for one in self.seen if proc.alive(one)}
        root_lives = proc.alive(self.root)
        found = dict.fromkeys(self.seen)
        if root_lives and not self.custody.supervises:
            found[self.root] = None
        if self.custody.supervises and not root_lives:
            # Orphans came to it while it lived. Now whoever forks twice leaves the tree, and only his mark stays.
            found.update(dict.fromkeys(proc.marked(self.mark, self.custody.uid)))
        roots = [self.root.pid] if root_lives else []
        found.update(dict.fromkeys(proc.descendants([*roots, *(one.pid for one in found)])))
        if self.group is not None:
            named = [Named(pid, since) for pid in self.group.members if (since := proc.started(pid)) is not None]
            found.update(dict.fromkeys(named))
        spared = {os.getpid(), *proc.ancestors(os.getpid())}
        if self.custody.supervises and root_lives:
            spared.add(self.root.pid)
        self.seen = {one for one in found if one.pid not in spared}
        return [one for one in found if one.pid not in spared]

    @property
    def lives(self) -> bool:
        return proc.alive(self.root) or bool(self.members())


class ProcessEnforcer(Workless):
    """Freezes a control group where there is one, and stops each process where there is none.

    It reaches only agents in custody, and somebody in custody is not exchanged for another as long as he lives.
    """

    strategy = Strategy.PROCESS
    local = True
    frees_to_treat = True
    drains = False
    ends = True

    def __init__(self, *, store: EnforcementStore, clock: Clock, groups: bool = True) -> None:
        self._store = store
        self._clock = clock
        self._groups = groups
        self._held: dict[AgentKey, _Held] = {}
        self._shared: dict[AgentKey, int] = {}
        self.tell_supervisor: Callable[[AgentKey, OrderWord], Awaitable[bool]] = _nobody_listens
        self._boot = proc.boot_id() if proc.PROC.joinpath("sys/kernel/random/boot_id").exists() else ""

    async def open(self) -> None:
        """Know who was in custody before and still lives; one from before the machine began anew is nobody."""
        for custody in await self._store.custodies():
            if custody.boot_id == self._boot:
                self._held[custody.key] = _Held(custody)
                await self.let_go(custody.key)
            else:
                await self._store.drop_custody(custody.key)

    # --- custody ---------------------------------------------------------------------------------------------

    async def take(self, key: AgentKey, pid: int, *, uid: int, supervises: bool) -> Custody:
        """Take a process into custody on the word of whoever spoke over the socket, which the kernel vouches for."""
        began = self._admissible(pid, uid)
        held = self._held.get(key)
        if held is not None and held.lives and held.root != Named(pid, began):
            raise CustodyTaken(agent_id=key[1], pid=held.custody.pid)
        if held is not None and held.root == Named(pid, began):
            return held.custody
        group = cgroup.make(f"{key[0]}/{key[1]}/{pid}/{began}", uid=uid) if self._groups else None
        custody = Custody(
            project=key[0],
            agent_id=key[1],
            pid=pid,
            started=began,
            boot_id=self._boot,
            uid=uid,
            supervises=supervises,
            since_ms=self._clock.now_ms(),
            cgroup="" if group is None else str(group.path),
        )
        self._held[key] = _Held(custody)  # at once: of two that come together the other is refused
        try:
            await self._store.put_custody(custody)
        except BaseException:
            del self._held[key]
            raise
        if group is not None and not supervises:
            _join(group, [Named(pid, began), *proc.descendants([pid])])
        return custody

    def _admissible(self, pid: int, uid: int) -> int:
        """The start time of a process that may be held at all."""
        ours = os.getpid()
        began = proc.started(pid) if pid > 1 else None
        if pid <= 1:
            problem = "it holds up the machine"
        elif pid == ours:
            problem = "it is Homeostat itself"
        elif pid in set(proc.ancestors(ours)):
            problem = "Homeostat was started by it"
        elif began is None:
            problem = "there is no such process"
        elif uid != os.geteuid() or proc.uid(pid) != uid:
            problem = "it belongs to another user"
        else:
            return began
        raise CustodyRefused(pid=pid, problem=problem)

    def share(self, key: AgentKey, pid: int) -> None:
        """Know that an agent lives in a process with others, none of whom may be stopped for another."""
        self._shared[key] = pid

    def unshare(self, key: AgentKey) -> None:
        self._shared.pop(key, None)

    async def gather(self, key: AgentKey) -> None:
        """Bring whoever belongs to an agent into its group, before any of them can leave the tree."""
        held = self._held.get(key)
        if held is not None and held.group is not None and held.group.exists:
            _join(held.group, held.members())

    async def let_go(self, key: AgentKey) -> None:
        """Forget a custody whose process has ended."""
        held = self._held.get(key)
        if held is not None and not held.lives:
            del self._held[key]
            await self._store.drop_custody(key)
            if held.group is not None:
                held.group.remove()

    def custody(self, key: AgentKey) -> Custody | None:
        held = self._held.get(key)
        return None if held is None else held.custody

    def supervised(self, key: AgentKey) -> bool:
        """Whether somebody is there who would start the agent again."""
        held = self._held.get(key)
        return held is not None and held.custody.supervises and proc.alive(held.root)

    def agents(self) -> list[AgentKey]:
        """Everybody in custody."""
        return list(self._held)

    # --- the port --------------------------------------------------------------------------------------------

    async def reaches(self, key: AgentKey) -> bool:
        held = self._held.get(key)
        return held is not None and held.lives

    async def observe(self, key: AgentKey, before: str) -> str:
        """Who sleeps already: whoever stopped them may wake them, and we do not."""
        if before:
            return before
        held = self._held.get(key)
        members = held.members() if held is not None else []
        asleep = [one for one in members if proc.state(one.pid) in proc.STOPPED]
        return json.dumps({"asleep": asleep})

    async def hold(
        self, key: AgentKey, stance: Stance, reason: str, before: str, mandate: Mandate | None = None
    ) -> None:
        del reason, mandate
        held = self._held.get(key)
        if held is None:
            raise ProcessGone(agent_id=key[1])
        match stance:
            case Stance.CLOSED:
                await self._stop(held)
            case Stance.OPEN:
                await self._thaw(held, before)
            case Stance.ENDED:
                await self.end(key)
            case Stance.DRAINING:
                self._drain(held)

    async def _stop(self, held: _Held) -> None:
        stopped: set[Named] = set()
        for _ in range(ROUNDS_MAX):
            members = held.members()
            if held.group is not None and held.group.exists:
                _join(held.group, members)
                await held.group.freeze(frozen=True)
                members = [one for one in held.members() if one.pid not in held.group.members]
            fresh = [one for one in members if one not in stopped]
            if not fresh:
                break
            stopped.update(one for one in fresh if proc.send(one, signal.SIGSTOP))
        for _ in range(int(STOP_SECONDS / _POLL_SECONDS)):  # a signal that was sent has not arrived yet
            if all(proc.state(one.pid) in proc.RESTING for one in stopped):
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _thaw(self, held: _Held, before: str) -> None:
        """Undo what was done, children last stopped first woken."""
        asleep = {Named(*one) for one in json.loads(before or "{}").get("asleep", [])}
        if held.group is not None and held.group.exists:
            await held.group.freeze(frozen=False)
        woken = [one for one in reversed(held.members()) if one not in asleep]
        for one in woken:
            proc.send(one, signal.SIGCONT)
        for _ in range(int(STOP_SECONDS / _POLL_SECONDS)):
            if not any(proc.state(one.pid) in proc.STOPPED for one in woken):
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _drain(self, held: _Held) -> None:
        """Ask for an orderly end, but only who has said that he understands."""
        members = held.members()
        front = [one for one in members if one == held.root or proc.parent(one.pid) == held.root.pid]
        for one in front:
            if one not in held.told_to_drain and proc.catches(one.pid, signal.SIGUSR1):
                proc.send(one, signal.SIGUSR1)
                held.told_to_drain.add(one)

    def members(self, key: AgentKey) -> list[Named]:
        """Everybody who belongs to an agent now."""
        held = self._held.get(key)
        return [] if held is None else held.members()

    async def end(
        self, key: AgentKey, *, term_seconds: float = TERM_SECONDS, only: Collection[Named] | None = None
    ) -> bool:
        """End the tree, or some of it: first kindly, then for certain. Whether nobody of them is left."""
        held = self._held.get(key)
        if held is None:
            raise ProcessGone(agent_id=key[1])

        def left() -> list[Named]:
            return [one for one in held.members() if only is None or one in only]

        for one in left():
            proc.send(one, signal.SIGTERM)
        # What is stopped hears nothing until it goes on.
        if held.group is not None and held.group.exists:
            await held.group.freeze(frozen=False)
        for one in left():
            proc.send(one, signal.SIGCONT)
        if not await _gone(left, term_seconds):
            for _ in range(ROUNDS_MAX):
                for one in left():
                    proc.send(one, signal.SIGKILL)
                if await _gone(left, KILL_SECONDS / ROUNDS_MAX):
                    break
        return not left()

    async def held(self, key: AgentKey, before: str) -> Reading:
        """What is gone nobody here can start again; that is said, and left to whoever started it."""
        del before
        held = self._held.get(key)
        members = [] if held is None else held.members()
        if held is None or not members:
            return Reading(stance=Stance.ENDED, note="its process is gone; whoever started it can start it again")
        frozen: set[int] = held.group.members if held.group is not None and held.group.frozen else set()
        awake = [one for one in members if one.pid not in frozen and proc.state(one.pid) not in proc.RESTING]
        if awake:
            return Reading(stance=Stance.OPEN, note=_told(awake, "runs", "run"))
        how = "frozen as a group" if all(one.pid in frozen for one in members) else "stopped one by one"
        return Reading(stance=Stance.CLOSED, note=f"{_told(members, 'is', 'are')} {how}")

    def apart(self, key: AgentKey) -> str:
        pid = self._shared.get(key)
        if pid is None:
            return ""
        count = sum(one == pid for one in self._shared.values())
        return f"process {pid} hosts {count} agents, and stopping it would stop all; its turns and calls are held"

    async def in_flight(self, key: AgentKey) -> int:
        """Whoever was asked for an orderly end and has not come to it."""
        held = self._held.get(key)
        if held is None:
            return 0
        return sum(proc.alive(one) and proc.state(one.pid) not in proc.STOPPED for one in held.told_to_drain)

    async def preempt(self, key: AgentKey) -> None:
        """What is stopped does nothing; what it had in work the kernel takes back."""
        if (held := self._held.get(key)) is not None:
            held.told_to_drain.clear()


async def _gone(left: Callable[[], list[Named]], seconds: float) -> bool:
    for _ in range(max(1, int(seconds / _POLL_SECONDS))):
        if not left():
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return not left()


async def _nobody_listens(key: AgentKey, word: OrderWord) -> bool:
    del key, word
    return False


def _join(group: cgroup.Group, members: Sequence[Named]) -> None:
    """Bring everybody into the group who is not in it; who may not be moved is stopped by signal."""
    inside = group.members
    for one in members:
        if one.pid not in inside and proc.alive(one):
            with suppress(OSError):
                (group.path / "cgroup.procs").write_text(str(one.pid))
                if not proc.alive(one):  # it ended meanwhile, and whoever got its number has nothing to do with this
                    (group.path.parent / "cgroup.procs").write_text(str(one.pid))


def _told(members: Sequence[Named], one: str, many: str) -> str:
    return f"1 process {one}" if len(members) == 1 else f"{len(members)} processes {many}"
