"""An agent with a life of its own: it opens a file at startup, and remembers what it was told across restarts.

homeostat worker examples.notebook:Notebook --agent-id notebook
homeostat enqueue notebook '{"note": "milk"}' --wait
homeostat enqueue notebook '{"read": true}' --wait
"""

import tempfile
from typing import Any, TextIO

from homeostat import LifecycleConfig, ManagedAgent, RecoverableError, Turn


class Notebook(ManagedAgent):
    """Keeps notes. `{"note": …}` adds one, `{"read": true}` gives them all."""

    memory_keys = frozenset({"notes"})
    journal: TextIO | None = None

    async def _do_startup(self, config: LifecycleConfig) -> None:
        # What is entered into `resources` is closed at shutdown, and after a startup that failed half way.
        self.journal = self.resources.enter_context(tempfile.TemporaryFile("w+"))

    async def process(self, turn: Turn, /) -> dict[str, Any]:
        notes: list[str] = await self.memory.load("notes", [])
        match turn.input:
            case {"note": str(text)}:
                assert self.journal is not None
                self.journal.write(text + "\n")
                self.memory.update("notes", [*notes, text])
                return {"kept": len(notes) + 1}
            case {"read": True}:
                return {"notes": notes}
            case _:
                raise RecoverableError('send {"note": "…"} or {"read": true}')
