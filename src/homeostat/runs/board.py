"""The board: a run's tasks in memory, which of them can begin, and which will never."""

from collections.abc import Iterable
from heapq import heappop, heappush

from homeostat.core.clock import Millis
from homeostat.core.machines.task import TASK, TaskStatus
from homeostat.core.records.run import OnFailure, Task
from homeostat.runs.plan import references


class Board:
    """Knows what each task waits for. Results are not kept here."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.tasks: dict[int, Task] = {task.number: task for task in tasks}
        self.numbers = {task.spec.name: task.number for task in self.tasks.values()}
        self._dependants: dict[int, list[int]] = {}
        self._missing: dict[int, int] = {}
        self._doomed: list[int] = []
        self._ready: list[int] = []
        self._later: list[tuple[Millis, int]] = []
        self.running: dict[int, None] = {}  # those that began first come first
        self.referred: set[int] = set()  # tasks whose results others ask for
        self.broken: int | None = None
        for number, task in self.tasks.items():
            names = task.spec.after
            self._missing[number] = len(names)
            for name in names:
                self._dependants.setdefault(self.numbers[name], []).append(number)
            if names:
                self.referred.update(self.numbers[name] for name in references(task.spec))
        over = [task for task in self.tasks.values() if task.status in TASK.final]
        self.unfinished = len(self.tasks) - len(over)
        for task in over:
            self._settled(task)
        under_way = [task for task in self.tasks.values() if task.status is TaskStatus.RUNNING]
        self.running.update((task.number, None) for task in sorted(under_way, key=lambda task: task.started_at_ms or 0))
        for task in self.tasks.values():
            if task.status is TaskStatus.WAITING:
                self._place(task)

    def put(self, task: Task) -> None:
        """A task has moved."""
        number, status = task.number, task.status
        before = self.tasks[number].status
        self.tasks[number] = task
        if before is TaskStatus.RUNNING:
            self.running.pop(number, None)
        if status in TASK.final and before not in TASK.final:
            self.unfinished -= 1
            self._settled(task)
        else:
            self._place(task)

    def _place(self, task: Task) -> None:
        if task.status is TaskStatus.RUNNING:
            self.running[task.number] = None
        elif task.status is TaskStatus.WAITING and not self._missing[task.number]:
            if task.not_before_ms is not None:
                heappush(self._later, (task.not_before_ms, task.number))
            else:
                heappush(self._ready, task.number)

    def _settled(self, task: Task) -> None:
        """Tell those who wait for a task that it is over."""
        if task.status is TaskStatus.FAILED and task.spec.on_failure is not OnFailure.CONTINUE and self.broken is None:
            self.broken = task.number
        good = task.status is TaskStatus.SUCCEEDED
        for number in self._dependants.get(task.number, ()):
            other = self.tasks[number]
            if other.final:
                continue
            if not good:
                self._doomed.append(number)
                continue
            self._missing[number] -= 1
            if not self._missing[number]:
                self._place(other)

    # --- what to do next -----------------------------------------------------------------------------------

    def next_ready(self, now: Millis) -> Task | None:
        """The first task that can begin now, taken off the list."""
        while self._later and self._later[0][0] <= now:
            heappush(self._ready, heappop(self._later)[1])
        while self._ready:
            task = self.tasks[heappop(self._ready)]
            if task.status is TaskStatus.WAITING:
                return task
        return None

    def next_doomed(self) -> Task | None:
        """A task that waits for one that failed."""
        while self._doomed:
            task = self.tasks[self._doomed.pop()]
            if task.status in (TaskStatus.WAITING, TaskStatus.HELD):
                return task
        return None

    @property
    def due_ms(self) -> Millis | None:
        """When the next task may be tried again."""
        return self._later[0][0] if self._later else None

    @property
    def began_ms(self) -> Millis | None:
        """When the first of the tasks began that are running."""
        first = next(iter(self.running), None)
        return None if first is None else self.tasks[first].started_at_ms

    @property
    def held(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.status is TaskStatus.HELD]
