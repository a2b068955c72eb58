"""An operator beside the load, in a process of its own: kills and approves, and notes how long each answer took.

What is to be killed or approved is made ready before the load begins, so that nothing but the answer is timed.
"""

import asyncio
import itertools
import json
import sys
import time
from collections import defaultdict, deque
from typing import Any

import uvloop

OPERATIONS_PER_SECOND = 5.0
READY_MAX = 400
PATIENCE_SECONDS = 20.0
TURNS_IN_HAND = 3
TURN = "a turn, sent to delivered"


class Operator:
    """Kills agents and runs, approves tasks and asks whether anybody is there, one after the other."""

    def __init__(self, port: int, agents: list[str], hosted: list[str]) -> None:
        self._port = port
        self._agents = itertools.cycle(agents)
        *others, self._victim = hosted
        self._hosted = itertools.cycle(others)
        self._names = frozenset(others)
        self._to_kill: deque[str] = deque()
        self._to_approve: deque[str] = deque()
        self.took: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        self.failures: list[str] = []

    async def prepare(self, seconds: float) -> None:
        """Runs that wait to be killed, and tasks that wait to be approved."""
        count = min(READY_MAX, int(seconds * OPERATIONS_PER_SECOND / 5) + 1)
        self._to_kill.extend([await self._run(approval=False, apply="manual") for _ in range(count)])
        self._to_approve.extend([await self._run(approval=True, apply="auto") for _ in range(count)])
        await self._awaits(self._to_approve[-1])

    async def work(self, seconds: float) -> None:
        acts = itertools.cycle(
            (
                *(self._kill_agent, self._kill_run, self._approve, self._ask_alive, self._wait_for_turn),
                self._kill_at_work,
            )
        )
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            act = next(acts)
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await act()
            except (OSError, TimeoutError, asyncio.IncompleteReadError, KeyError) as problem:
                self.failures.append(f"{act.__name__}: {problem!r}")
            await asyncio.sleep(max(0.0, 1 / OPERATIONS_PER_SECOND - (time.perf_counter() - began)))

    async def _kill_agent(self) -> None:
        agent = next(self._agents)
        body = {"reason": "soak", "actor": "operator"}
        await self._timed("kill an agent", "POST", f"/v1/agents/{agent}/kill", body)
        await self._timed("release an agent", "POST", f"/v1/agents/{agent}/release", body)

    async def _kill_at_work(self) -> None:
        """One that a worker hosts, with turns in its inbox: its gate is shut as well, and what it has in hand taken."""
        body = {"reason": "soak", "actor": "operator"}
        for _ in range(TURNS_IN_HAND):
            await self._ask("POST", f"/v1/agents/{self._victim}/inbox", {"type": "turn", "payload": "soak"})
        await self._timed("kill an agent at work", "POST", f"/v1/agents/{self._victim}/kill", body)
        await self._timed("release an agent at work", "POST", f"/v1/agents/{self._victim}/release", body)

    async def _kill_run(self) -> None:
        run_id = self._to_kill.popleft() if self._to_kill else await self._run(approval=False, apply="manual")
        await self._timed("kill a run", "POST", f"/v1/runs/{run_id}/kill", {"reason": "soak"})

    async def _approve(self) -> None:
        run_id = self._to_approve.popleft() if self._to_approve else await self._run(approval=True, apply="auto")
        await self._awaits(run_id)
        await self._timed("approve a task", "POST", f"/v1/runs/{run_id}/tasks/only/approve", {"reason": "soak"})

    async def _awaits(self, run_id: str) -> None:
        path = f"/v1/runs/{run_id}/tasks/only"
        while (await self._ask("GET", path))[1]["status"] != "held":  # noqa: ASYNC110 - nobody signals
            await asyncio.sleep(0.05)

    async def _ask_alive(self) -> None:
        await self._timed("is anybody there", "GET", "/livez", None)

    async def _wait_for_turn(self) -> None:
        agent = next(self._hosted)
        began = time.perf_counter()
        _, sent = await self._ask("POST", f"/v1/agents/{agent}/inbox", {"type": "turn", "payload": "soak"})
        status, _ = await self._ask("GET", f"/v1/turns/{sent['turn_id']}/deliverable?wait=10")
        self._note(TURN, status, began)

    async def waiting(self) -> int:
        """How many turns wait at agents that nobody killed."""
        _, found = await self._ask("GET", "/v1/heads?limit=500")
        return sum(head["queued"] for head in found["heads"] if head["agent_id"] in self._names)

    async def _run(self, *, approval: bool, apply: str) -> str:
        task = {"name": "only", "agent": next(self._hosted), "input": "soak", "approval": approval}
        _, made = await self._ask("POST", "/v1/runs", {"goal": "soak", "tasks": [task], "policy": {"apply": apply}})
        return made["run_id"]

    async def _timed(self, name: str, method: str, path: str, body: dict[str, Any] | None) -> None:
        began = time.perf_counter()
        status, said = await self._ask(method, path, body)
        self._note(name, status, began, said)

    def _note(self, name: str, status: int, began: float, said: object = None) -> None:
        """When an order was given, by the clock that all processes of a machine share, and how many ms it took."""
        if 200 <= status < 300:
            self.took[name].append((began, (time.perf_counter() - began) * 1000))
        else:
            self.failures.append(f"{name}: {status} {said}")

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """One request on a connection of its own, as a command of the CLI makes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n"
        writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(content) + content)
        first = (await reader.readuntil(b"\r\n\r\n")).lower()
        _, told, size = first.partition(b"\r\ncontent-length: ")
        said = await reader.readexactly(int(size.split(b"\r\n")[0])) if told else await reader.read(-1)
        writer.close()
        return int(first[9:12]), json.loads(said) if b"json" in first else said


async def operate(port: int, seconds: float, hosted: int, agents: list[str]) -> None:
    """Say when everything is ready, begin when told so, and tell at the end how it went."""
    operator = Operator(port, agents, [f"soak-{number}" for number in range(hosted)])
    await operator.prepare(seconds)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await operator.work(seconds)
    told = {"took": operator.took, "failures": operator.failures, "waiting": await operator.waiting()}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    uvloop.run(operate(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
