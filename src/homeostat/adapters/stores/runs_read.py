"""What may be asked of the store of runs, in words that every engine's statements answer."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from homeostat.adapters.stores import runs_rows as rows
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, RunId, TurnId, scope_of
from homeostat.core.limits import STATE_ROWS_LATEST
from homeostat.core.machines.run import RunStatus
from homeostat.core.machines.task import TaskStatus
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.run import RedButton, Run, Task

NOTHING: Final = (None, None, None)


class Moved(Exception):
    """Somebody else was first: nothing of this is written."""


class RunsReading(ABC):
    """Reads by named statements. A keeper says how to run one."""

    @abstractmethod
    async def _all(self, name: str, *values: object) -> Sequence[rows.Row]:
        """The rows of a statement that reads."""

    @abstractmethod
    async def _do(self, name: str, *values: object) -> Sequence[rows.Row]:
        """The rows of a statement that writes."""

    @abstractmethod
    def _list(self, values: Collection[object]) -> object:
        """Several values as one parameter."""

    async def run(self, project: ProjectId, run_id: RunId) -> Run | None:
        found = await self._all("run_get", project, run_id)
        return rows.read_run(found[0]) if found else None

    async def runs(
        self, project: ProjectId, *, status: RunStatus | None, before: RunId | None, limit: int
    ) -> list[Run]:
        wanted = (project, before or rows.NEWEST, "" if status is None else status.value, limit)
        return [rows.read_run(row) for row in await self._all("runs_list", *wanted)]

    async def alive(self, project: ProjectId | None, *, after: RunId | None, limit: int) -> list[Run]:
        return [rows.read_run(row) for row in await self._all("runs_alive", after or "", project or "", limit)]

    async def tasks(
        self, run_id: RunId, *, after: int = -1, status: TaskStatus | None = None, limit: int
    ) -> list[Task]:
        found: list[Task] = []
        while len(found) < limit and (page := await self._tasks(run_id, after, after + limit)):
            found += [task for task in page if status is None or task.status is status]
            after = page[-1].number
        return found[:limit]

    async def _tasks(self, run_id: RunId, after: int, last: int) -> list[Task]:
        """The tasks behind one number and up to another."""
        first_row, last_row = rows.place_of(after + 1)[0], rows.place_of(last)[0]
        plan = rows.read_plan(await self._all("plan_get", run_id, after, last))
        states = rows.read_states(await self._all("states_list", run_id, first_row, last_row))
        remains = {row[0]: row[1:] for row in await self._all("remains_list", run_id, after, last)}
        return [
            rows.read_task(number, spec, states.get(number, rows.UNTOUCHED), remains.get(number, NOTHING))
            for number, spec in plan
            if after < number <= last
        ]

    async def task(self, run_id: RunId, name: str) -> Task | None:
        plan = rows.read_plan(await self._all("plan_find", run_id, rows.named(name)))
        number = next((number for number, spec in plan if spec.name == name), None)
        if number is None:
            return None
        (task,) = await self._tasks(run_id, number - 1, number)
        if task.status is not TaskStatus.SUCCEEDED or task.turn_id is None:
            return task
        kept = await self._all("results_get", run_id, self._list([number]))
        if not kept:  # nobody asked for it: it is where the turn left it, for as long as turns are kept
            kept = [(number, rows.read_result(row[0])) for row in await self._all("turn_end", scope_of(task.turn_id))]
        return replace(task, result=Json(kept[0][1])) if kept else task

    async def results(self, run_id: RunId, numbers: Collection[int]) -> dict[int, Json]:
        found = await self._all("results_get", run_id, self._list(numbers))
        return {row[0]: Json(row[1]) for row in found}

    async def repeated_turns(self, run_id: RunId) -> dict[str, list[TurnId]]:
        found: dict[str, list[TurnId]] = {}
        for name, turn_id in await self._all("turns_repeated", run_id):
            found.setdefault(name, []).append(TurnId(turn_id))
        return found

    async def lost_ledgers(self) -> list[tuple[ProjectId, RunId]]:
        return [(ProjectId(row[0]), RunId(row[1])) for row in await self._all("ledgers_lost")]

    async def open_turns(
        self, project: ProjectId, run_id: RunId, *, after: TurnId | None = None, limit: int
    ) -> list[tuple[AgentId, TurnId]]:
        return [(row[0], row[1]) for row in await self._all("turns_open", project, run_id, after or "", limit)]

    async def open_below(
        self, project: ProjectId, turn_id: TurnId, *, after: TurnId | None = None, limit: int
    ) -> list[tuple[AgentId, TurnId]]:
        return [(row[0], row[1]) for row in await self._all("turns_below", project, turn_id, after or "", limit)]

    async def working(
        self, project: ProjectId, turns: Collection[tuple[AgentId, TurnId]], *, after: Millis
    ) -> dict[TurnId, Millis]:
        agents, wanted = self._list({agent_id for agent_id, _ in turns}), self._list([turn_id for _, turn_id in turns])
        found: dict[TurnId, Millis] = {}
        for turn_id, status, since, asked in await self._all("turns_working", project, agents, wanted, after):
            if asked is not None:
                found[turn_id] = min(since, asked)
            elif status != HeadStatus.DISPATCHED:
                found[turn_id] = since
        return found

    async def in_line(self, project: ProjectId, turns: Collection[tuple[AgentId, TurnId]]) -> set[TurnId]:
        agents, wanted = self._list({agent_id for agent_id, _ in turns}), self._list([turn_id for _, turn_id in turns])
        return {row[0] for row in await self._all("turns_in_line", project, agents, wanted)}

    async def marked(self, run_id: RunId) -> list[tuple[AgentId, TurnId]]:
        return rows.read_marked(await self._all("states_marked", self._list([run_id]))).get(run_id, [])

    async def in_hand(self, runs: Mapping[RunId, int]) -> dict[RunId, list[tuple[AgentId, TurnId]]]:
        found = rows.read_marked(await self._all("states_latest", self._list(runs), STATE_ROWS_LATEST))
        if older := [run_id for run_id, count in runs.items() if len(found.get(run_id, ())) < count]:
            found |= rows.read_marked(await self._all("states_marked", self._list(older)))
        return found

    async def barred(self, project: ProjectId, agents: Collection[AgentId], *, gates: bool) -> set[AgentId]:
        return {row[0] for row in await self._all("agents_barred", project, self._list(agents), gates)}

    async def driven(self, driver: str) -> dict[RunId, tuple[ProjectId, int]]:
        return {row[0]: (row[1], row[2]) for row in await self._all("runs_driven", driver)}

    async def drivers(self) -> tuple[dict[str, Millis], bool]:
        found = {row[0]: row[1] for row in await self._all("drivers_all")}
        unclaimed = None in found
        found.pop(None, None)
        return found, unclaimed

    async def held(self) -> list[RunId]:
        return [row[0] for row in await self._all("runs_held")]

    async def buttons(self) -> list[RedButton]:
        return [rows.read_button(row) for row in await self._all("buttons_all")]

    async def ended(self, run_id: RunId) -> RunStatus | None:
        found = await self._all("run_ended", run_id)
        return RunStatus(found[0][0]) if found else None

    async def kept(self, after: RunId, before: RunId, limit: int) -> list[Run]:
        return [rows.read_run(row) for row in await self._all("runs_kept", after, before, limit)]

    async def sweep(self, run_id: RunId, limit: int) -> int:
        swept = await self._do("ledger_sweep", run_id, limit)
        await self._do("ledger_gone", run_id)
        return sum(row[0] for row in swept)

    # --- writes of one statement ---------------------------------------------------------------------------

    async def beat(self, driver: str, until: Millis) -> None:
        await self._do("driver_beat", driver, until)

    async def leave(self, driver: str) -> None:
        await self._do("driver_drop", driver)

    async def bury(self, driver: str, until: Millis) -> None:
        await self._do("driver_bury", driver, until)

    async def claim(self, driver: str, *, limit: int) -> list[Run]:
        found = [rows.read_run(row) for row in await self._do("run_claim", driver, limit)]
        return sorted(found, key=lambda run: run.run_id)

    async def lift(self, project: str) -> RedButton | None:
        found = await self._do("button_lift", project)
        return rows.read_button(found[0]) if found else None
