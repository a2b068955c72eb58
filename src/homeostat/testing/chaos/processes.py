"""One process of an installation, forked by a zygote: it is killed, stopped, and started again as what it was."""

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from homeostat.testing.chaos.world import World
from homeostat.testing.chaos.zygote import Zygote, has_ended

READY_SECONDS: Final = 60.0
LEAVE_SECONDS: Final = 15.0
LAST_WORDS_BYTES: Final = 2_000
STOPPED: Final = "T"
_URL: Final = re.compile(rb"is up at (\S+)")


@dataclass(frozen=True, slots=True)
class Role:
    """What a process is: the function that is its program, with what it is told, and the word that it is ready.

    `{life}` in what it is told is another number in each of its lives.
    """

    title: str
    entry: str
    arguments: tuple[str, ...]
    ready: bytes
    settings: Mapping[str, str] = field(default_factory=dict[str, str])


def party(title: str, *arguments: str) -> Role:
    """A worker or a client (`homeostat.testing.parties`)."""
    return Role(title, "homeostat.testing.parties:main", (title, *arguments), b"ready\n")


def command(title: str, *arguments: str, settings: Mapping[str, str]) -> Role:
    """A command of Homeostat's own that serves."""
    entry = "homeostat.cli.application:application"
    return Role(title, entry, (title, *arguments), b"Press Ctrl-C to stop", settings)


class Process:
    """One life after the other in the same role. What it says is read only until it is ready."""

    def __init__(self, zygote: Zygote, role: Role, folder: Path, number: int) -> None:
        self.role: Final = role
        self.lives = 0
        self.world: Final = World(folder / f"{role.title}-{number}.world") if zygote.library else None
        self._zygote = zygote
        self._number = number
        self._log: Final = folder / f"{role.title}-{number}.log"
        self._said = b""
        self._pid = self._pidfd = self._ears = -1

    def start(self) -> None:
        """Begin a life; `ready` waits for it."""
        assert self._pid < 0, f"{self.role.title} is alive"
        self.lives += 1
        self._said = b""
        self._ears, mouth = os.pipe()
        words = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._pid = self._zygote.fork(
                self.role.entry,
                [
                    argument.replace("{life}", str(self._number * 10_000 + self.lives))
                    for argument in self.role.arguments
                ],
                settings=self.role.settings,
                stdout=mouth,
                stderr=words,
                home=self.world and self.world.path,
            )
        finally:
            os.close(mouth)
            os.close(words)
        self._pidfd = os.pidfd_open(self._pid)

    async def ready(self) -> None:
        """Until it says so."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(READY_SECONDS):
            while self.role.ready not in self._said:
                readable: asyncio.Future[None] = loop.create_future()
                ears = self._ears
                loop.add_reader(ears, lambda waiting=readable: waiting.done() or waiting.set_result(None))
                try:
                    await readable
                finally:
                    loop.remove_reader(ears)
                heard = os.read(ears, 4096)
                assert heard, f"{self.role.title} ended before it was ready: {self.last_words}"
                self._said += heard

    @property
    def url(self) -> str:
        """Where it says it is."""
        found = _URL.search(self._said)
        assert found is not None, f"no address in {self._said!r}"
        return found[1].decode()

    @property
    def pid(self) -> int:
        """Of this life; it is nobody else's until it was buried."""
        return self._pid

    @property
    def last_words(self) -> str:
        return self._log.read_bytes()[-LAST_WORDS_BYTES:].decode(errors="replace") if self._log.exists() else ""

    @property
    def alive(self) -> bool:
        return self._pid >= 0 and not has_ended(self._pidfd)

    @property
    def stopped(self) -> bool:
        """Whether it stands still, as the kernel has it."""
        if self._pid < 0:
            return False
        return Path(f"/proc/{self._pid}/stat").read_text().rpartition(") ")[2][0] == STOPPED

    def send(self, number: signal.Signals) -> None:
        if self._pid >= 0:
            os.kill(self._pid, number)  # dead or alive it keeps its number until it is buried

    def kill(self) -> None:
        if self._pid >= 0:
            self.send(signal.SIGKILL)
            self._bury()

    async def leave(self) -> None:
        """End in order."""
        if self._pid < 0:
            return
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                while self.alive:  # noqa: ASYNC110 — nobody tells when a process of somebody else's has ended
                    await asyncio.sleep(0.02)
        except TimeoutError:
            self.send(signal.SIGKILL)
        self._bury()

    def _bury(self) -> None:
        self._zygote.bury(self._pid)
        os.close(self._pidfd)
        os.close(self._ears)
        self._pid = self._pidfd = self._ears = -1
