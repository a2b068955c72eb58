"""Runs from anywhere: begin them, see how they stand, and act on them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from homeostat.client.transport import Received, Transport
from homeostat.core.errors import InvalidRequest
from homeostat.core.wire import runs as w
from homeostat.core.wire.ledger import LedgerPage


class RunsClient:
    """What a client can do with runs; `client.runs` is one."""

    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._project = project

    async def create(
        self,
        goal: str,
        *,
        tasks: Sequence[dict[str, Any]] | None = None,
        planner: dict[str, Any] | None = None,
        budget: dict[str, float] | None = None,
        policy: dict[str, Any] | None = None,
        seed: int | None = None,
        replay: bool = True,
        reason: str = "",
        actor: str = "operator",
        idempotency_key: str | None = None,
    ) -> w.RunShape:
        """Begin a run: with its tasks, or with somebody who plans them."""
        said = {"tasks": tasks, "planner": planner, "budget": _counted(budget), "policy": policy, "seed": seed}
        body = {
            "goal": goal,
            "actor": actor,
            "reason": reason,
            "replay": replay,
            **{name: value for name, value in said.items() if value is not None},
        }
        return (await self._post("/v1/runs", body, key=idempotency_key)).read(w.RunShape)

    async def get(self, run_id: str) -> w.RunShape:
        return (await self._get(_path(run_id))).read(w.RunShape)

    async def list(self, *, status: str | None = None, cursor: str | None = None, limit: int = 50) -> w.RunsPage:
        return (await self._get("/v1/runs", status=status, cursor=cursor, limit=limit)).read(w.RunsPage)

    async def tasks(self, run_id: str, *, cursor: int = -1, limit: int = 50) -> w.TasksPage:
        return (await self._get(f"{_path(run_id)}/tasks", cursor=cursor, limit=limit)).read(w.TasksPage)

    async def task(self, run_id: str, name: str) -> w.TaskEndShape:
        return (await self._get(f"{_path(run_id)}/tasks/{quote(name, safe='')}")).read(w.TaskEndShape)

    async def ledger(self, run_id: str, *, cursor: int = 0, limit: int = 50, order: str = "oldest") -> LedgerPage:
        """What happened in a run, a page at a time; `cursor` is the number of the last entry that was seen."""
        return (await self._get(f"{_path(run_id)}/ledger", cursor=cursor, limit=limit, order=order)).read(LedgerPage)

    async def plan(
        self, run_id: str, tasks: Sequence[dict[str, Any]], *, reason: str = "", actor: str = "operator"
    ) -> w.RunShape:
        """Give a run that is still being planned its tasks."""
        return await self._act(run_id, "plan", tasks=list(tasks), reason=reason, actor=actor)

    async def apply(self, run_id: str, *, reason: str = "", actor: str = "operator") -> w.RunShape:
        return await self._act(run_id, "apply", reason=reason, actor=actor)

    async def pause(self, run_id: str, *, force: bool = False, reason: str = "", actor: str = "operator") -> w.RunShape:
        return await self._act(run_id, "pause", force=force, reason=reason, actor=actor)

    async def resume(
        self, run_id: str, *, budget: dict[str, float] | None = None, reason: str = "", actor: str = "operator"
    ) -> w.RunShape:
        return await self._act(run_id, "resume", budget=_counted(budget), reason=reason, actor=actor)

    async def kill(self, run_id: str, *, reason: str = "", actor: str = "operator") -> w.RunShape:
        return await self._act(run_id, "kill", reason=reason, actor=actor)

    async def answer(
        self, run_id: str, task: str, *, approve: bool, reason: str = "", actor: str = "operator"
    ) -> w.RunShape:
        """Allow or forbid a task that waits for approval."""
        verb = f"tasks/{quote(task, safe='')}/{'approve' if approve else 'reject'}"
        return await self._act(run_id, verb, reason=reason, actor=actor)

    async def press_red_button(
        self, reason: str, *, project: str | None = None, actor: str = "operator"
    ) -> w.PressedShape:
        """Kill every run of a project, or of the whole system, and let none begin until it is lifted."""
        body = {"reason": reason, "actor": actor, "project": project}
        return (await self._post("/v1/red-button", body)).read(w.PressedShape)

    async def lift_red_button(
        self, *, project: str | None = None, reason: str = "", actor: str = "operator"
    ) -> w.ButtonsShape:
        """Let runs begin again, of a project or of the whole system; returns what is still pressed."""
        said = {"actor": actor, "reason": reason, **({} if project is None else {"project": project})}
        answer = await self._transport.send("DELETE", "/v1/red-button", project=self._project, query=said)
        return answer.read(w.ButtonsShape)

    async def _act(self, run_id: str, verb: str, **body: Any) -> w.RunShape:
        said = {name: value for name, value in body.items() if value is not None}
        return (await self._post(f"{_path(run_id)}/{verb}", said)).read(w.RunShape)

    async def _get(self, path: str, **query: Any) -> Received:
        asked = {name: value for name, value in query.items() if value is not None}
        return await self._transport.send("GET", path, project=self._project, query=asked)

    async def _post(self, path: str, body: dict[str, Any], *, key: str | None = None) -> Received:
        return await self._transport.send("POST", path, project=self._project, body=body, key=key)


def _counted(budget: Mapping[str, float] | None) -> Mapping[str, float] | None:
    """A budget as it can be said in JSON, which has no word for nan and inf: they would bound nothing, unseen."""
    for name, amount in (budget or {}).items():
        if not math.isfinite(amount):
            raise InvalidRequest(problem=f"{amount} bounds no {name}; leave it out if that is meant")
    return budget


def _path(run_id: str) -> str:
    return f"/v1/runs/{quote(run_id, safe='')}"
