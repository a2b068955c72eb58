"""A parent that has imported everything once: what it forks is at work in a tenth of the time an interpreter takes.

Whoever opens a `Zygote` orders processes from it over a socket that ends with its owner, and then all of them end. A
process that died stays a zombie until its owner has it buried, so that nobody else can have been given its number.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from homeostat.testing.chaos import world

ORDER_BYTES_MAX: Final = 65_536
WARM_SECONDS: Final = 60.0
WARM: Final = (
    "homeostat.adapters.doorbells.nats",
    "homeostat.adapters.statuses.redis",
    "homeostat.adapters.stores.postgres",
    "homeostat.app.assemble",
    "homeostat.app.data_dir",
    "homeostat.cli.application",
    "homeostat.server.gateway_alone",
    "homeostat.server.serving",
    "homeostat.testing.parties",
)


class Zygote:
    """Forks processes on order. With `library` they live in worlds of their own (`world.c`)."""

    def __init__(self, library: Path | None = None) -> None:
        self.library: Final = library
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = dict(os.environ) | ({"LD_PRELOAD": str(library)} if library else {})
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "homeostat.testing.chaos.zygote", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._channel.settimeout(WARM_SECONDS)
        assert self._answer() == {"warm": True}

    def fork(
        self,
        entry: str,
        arguments: Sequence[str],
        *,
        settings: Mapping[str, str],
        stdout: int,
        stderr: int,
        home: Path | None = None,
    ) -> int:
        """Start `module:function` as a program of its own; returns its process id. `home` is the page of its world."""
        lives_in = str(home) if home is not None and self.library is not None else None
        order = {"entry": entry, "arguments": list(arguments), "settings": dict(settings), "home": lives_in}
        socket.send_fds(self._channel, [json.dumps(order).encode()], [stdout, stderr])
        return int(self._answer()["pid"])

    def bury(self, pid: int) -> int:
        """Wait for a process that was killed or ends, and let its number go; returns how it ended."""
        self._channel.send(json.dumps({"bury": pid}).encode())
        return int(self._answer()["status"])

    def close(self) -> None:
        self._channel.close()
        self._process.wait(WARM_SECONDS)

    def _answer(self) -> dict[str, Any]:
        raw = self._channel.recv(ORDER_BYTES_MAX)
        assert raw, "the zygote is dead"
        return json.loads(raw)


# --- the other side ----------------------------------------------------------------------------------------------


def main() -> None:
    """Fork what is ordered until nobody orders any more."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    for name in WARM:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is shared is not written to by a collector that looks for garbage in it
    channel.send(json.dumps({"warm": True}).encode())
    living: set[int] = set()
    while True:
        raw, files, _, _ = socket.recv_fds(channel, ORDER_BYTES_MAX, 2)
        if not raw:
            break
        order = json.loads(raw)
        if "bury" in order:
            _, status = os.waitpid(order["bury"], 0)
            living.discard(order["bury"])
            channel.send(json.dumps({"status": status}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            channel.close()
            _live(order, files)
        for file in files:
            os.close(file)
        living.add(pid)
        channel.send(json.dumps({"pid": pid}).encode())
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def _live(order: dict[str, Any], files: Sequence[int]) -> None:
    """Be the program that was ordered, and never return."""
    status = 1
    try:
        os.setsid()
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        for file in files:
            os.close(file)
        os.environ.update(order["settings"])
        if order["home"] is not None:
            world.follow(order["home"])
        module, _, name = order["entry"].partition(":")
        sys.argv = [module, *order["arguments"]]
        getattr(importlib.import_module(module), name)()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 — its last words; nobody is there to catch it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def has_ended(pidfd: int) -> bool:
    """Whether the process behind a descriptor is dead, buried or not."""
    return bool(select.select([pidfd], [], [], 0)[0])


if __name__ == "__main__":
    main()
