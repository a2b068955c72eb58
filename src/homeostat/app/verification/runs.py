"""Runs and their ledgers: no gap, no change, the end where the run says it is, one answer to each question."""

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, Final, cast

from homeostat.app.verification.findings import Violation
from homeostat.core.codec import from_json
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.limits import PAGE_MAX
from homeostat.core.ports.runs import RunStore
from homeostat.core.records.provenance import EntryKind, read_line
from homeostat.core.records.run import Run
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


def _answers(page: Page) -> list[str]:
    """The tasks that were approved or rejected in these lines."""
    said = [cast("dict[str, Any]", from_json(bytes(read_line(one).payload))) for one in page if _CHANGED in one]
    return [str(one["task"]) for one in said if one.get("change") in ANSWERS]
