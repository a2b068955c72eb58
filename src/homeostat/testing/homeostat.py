"""Homeostat itself as a process of its own, started by its command."""

import re
import signal
import sys
from pathlib import Path
from typing import Final

from homeostat.testing.servers import Server

_URL: Final = re.compile(r"is up at (\S+)")


class HomeostatServer(Server):
    """`homeostat server` on a directory of its own; it is stopped as an operator would."""

    title = "homeostat"
    ready_words = "Press Ctrl-C to stop"
    stop_signal = signal.SIGTERM

    def __init__(
        self, *options: str, data_dir: Path | None = None, command: str = "server", project: str | None = None
    ) -> None:
        super().__init__()
        self._project: Final = project
        self.data_dir: Final = data_dir or self.directory / "data"
        self._options: Final = options
        self._command: Final = command

    @property
    def url(self) -> str:
        """Where it says it is: a taken port has moved it elsewhere."""
        found = _URL.search(self.log)
        assert found is not None, f"no address in what it said:\n{self.log}"
        return found[1]

    def command(self) -> list[str]:
        fixed = [] if "--ephemeral" in self._options else ["--data-dir", str(self.data_dir)]
        port = [] if "--port" in self._options else ["--port", str(self.port)]
        settings = [f"HOMEOSTAT_PROJECT={self._project}"] if self._project else []
        return ["env", *settings, sys.executable, "-m", "homeostat", self._command, *fixed, *port, *self._options]
