"""What the ledger of a run has to know of a turn besides its steps and calls: whose code it was, what it remembered."""

import functools
import hashlib
import inspect
from pathlib import Path
from typing import Any, Final

from homeostat.agent.asking import RECORDED_BYTES_MAX, remembered
from homeostat.agent.functions import FunctionAgent
from homeostat.agent.journal import Journal
from homeostat.agent.managed import ManagedAgent
from homeostat.core.codec import Json, to_json

ORDER_MAX: Final = 2_000  # things a turn did that are told in their order; beyond it, time has to do


def recording_of(agent: object, journal: Journal | None) -> Json:
    """Whose code ran, in which order it asked for what, and what it read from the agent's memory."""
    told: dict[str, Any] = {"agent": code_of(agent)}
    if journal is not None and 1 < len(journal.order) <= ORDER_MAX:
        told["order"] = journal.order
        told["parallel"] = journal.parallel
    if isinstance(agent, ManagedAgent) and agent.memory.read:
        told |= remembered(agent.memory.read, RECORDED_BYTES_MAX)
    return to_json(told)


def code_of(agent: object) -> dict[str, str | None]:
    """Where the code of an agent is found, and a digest of the file it stands in."""
    written = agent.function if isinstance(agent, FunctionAgent) else type(agent)
    return _code(written)


@functools.lru_cache(maxsize=1_024)
def _code(written: Any) -> dict[str, str | None]:
    module = getattr(written, "__module__", None) or "unknown"
    name = getattr(written, "__qualname__", None) or type(written).__qualname__
    try:
        path = inspect.getsourcefile(written)
        digest = None if path is None else hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except (TypeError, OSError):
        digest = None
    return {"target": f"{module}:{name}", "source": digest}
