"""Runs and their ledgers: no gap, no change, the end where the run says it is, one answer and one turn to each task."""

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, Final, cast

from homeostat.app.verification.findings import Violation
from homeostat.core.codec import from_json
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.limits import PAGE_MAX
from homeostat.core.ports.runs import RunStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.provenance import EntryKind, read_line
from homeostat.core.records.run import Run
from homeostat.core.records.view import Outcome
from homeostat.runs.bundle import Page
from homeostat.runs.ledgers import Ledgers
from homeostat.runs.verify import Found, Walk, check_heads

_CHANGED: Final = f'"kind":"{EntryKind.RUN_CHANGED.value}"'.encode()
ANSWERS: Final = ("approved", "rejected")


async def runs(store: RunStore, project: ProjectId) -> AsyncGenerator[Run]:
    """A project's runs, the newest first."""
    before: RunId | None = None
    while page := await store.runs(project, status=None, before=before, limit=PAGE_MAX):
        for run in page:
            yield run
        before = page[-1].run_id


async def always_a_whole_ledger(store: RunStore, ledgers: Ledgers, run: Run) -> tuple[int, list[Violation]]:
    """How many entries a ledger has, and what is wrong with it."""
    known = await store.run(run.project, run.run_id)  # before the entries: they may only have grown since
    assert known is not None
    if known.swept_at_ms is not None:  # it was signed before it went, and goes bit by bit
        return 0, []
    heads = await ledgers.heads(run.run_id)
    walk, answers = Walk(run.project, run.run_id, heads), Counter[str]()
    try:
        check_heads(heads, run.project, run.run_id, None)
        async for page in ledgers.pages(run.project, run.run_id):
            answers.update(_answers(page))
            walk.take(page)
        walk.close(complete=False)
    except Found as found:
        return walk.size, [Violation("always_a_whole_ledger", run.run_id, found.finding.message)]
    bad: list[Violation] = []
    if walk.size < known.tip.next_seq - 1:
        detail = f"its last entry is {known.tip.next_seq - 1}, and the ledger ends with {walk.size}"
        bad.append(Violation("always_a_whole_ledger", run.run_id, detail))
    elif walk.size == known.tip.next_seq - 1 and walk.last != known.tip.hash:
        bad.append(Violation("always_a_whole_ledger", run.run_id, "its last entry is not the one that was written"))
    bad += [
        Violation("always_one_answer_stands", run.run_id, f"task {task!r} was answered {times} times")
        for task, times in answers.items()
        if times > 1
    ]
    return walk.size, bad


async def always_one_turn_for_one_attempt(store: RunStore, turns: TurnStore, run: Run) -> list[Violation]:
    """A task was not carried out again once its turn had succeeded, or while it was under way.

    One that failed for want of money, or was stopped, is given back, and asked for again under the same name.
    """
    found: list[Violation] = []
    for name, made in (await store.repeated_turns(run.run_id)).items():
        ends = await turns.deliverables(run.project, made)
        meant = [one for one in made if one not in ends or ends[one].status is Outcome.SUCCESS]
        if len(meant) > 1:
            detail = f"{', '.join(meant)} were made for one attempt"
            found.append(Violation("always_one_turn_for_one_attempt", name, detail))
    return found


async def always_a_run_to_each_ledger(store: RunStore) -> list[Violation]:
    """A ledger is written with its run, and runs are kept for good."""
    return [
        Violation("always_a_run_to_each_ledger", run_id, f"it has a ledger in {project}, and nobody knows it")
        for project, run_id in await store.lost_ledgers()
    ]


def _answers(page: Page) -> list[str]:
    """The tasks that were approved or rejected in these lines."""
    said = [cast("dict[str, Any]", from_json(bytes(read_line(one).payload))) for one in page if _CHANGED in one]
    return [str(one["task"]) for one in said if one.get("change") in ANSWERS]
