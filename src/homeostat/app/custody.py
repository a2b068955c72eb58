"""The desk where processes of this machine are taken into custody, over a socket on which the kernel vouches."""

import asyncio
import logging
import os
import socket
import stat
import struct
import tempfile
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from homeostat.adapters.enforcers import proc
from homeostat.adapters.enforcers.process import ProcessEnforcer
from homeostat.app.holding import Holding
from homeostat.app.settings import Settings
from homeostat.core.addresses import web_address
from homeostat.core.enforcement_errors import CustodyRefused
from homeostat.core.errors import HomeostatError, InvalidRequest, MalformedPayload
from homeostat.core.ids import digest_of
from homeostat.core.records.enforcement import Control
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire.custody import LINE_BYTES_MAX, Answer, Claim, News, Order, OrderWord
from homeostat.fleet.fleet import Fleet
from homeostat.immune.enforcement import stance_of
from homeostat.immune.immune import Immune

T = TypeVar("T")

log = logging.getLogger(__name__)

SOCKET_FILE: Final = "custody.sock"
PATH_BYTES_MAX: Final = 100  # a Unix socket's address holds 108
CLAIM_SECONDS: Final = 5.0

_encoder = msgspec.json.Encoder()


class CustodyDesk:
    """Takes claims, hears of processes that were started, and passes orders on to whoever starts them."""

    def __init__(
        self, *, path: Path, processes: ProcessEnforcer, fleet: Fleet, immune: Immune, control_key: str
    ) -> None:
        self.path = path
        self.control_key = control_key
        processes.tell_supervisor = self.order
        self._processes = processes
        self._fleet = fleet
        self._immune = immune
        self._server: asyncio.Server | None = None
        self._lines: dict[AgentKey, asyncio.StreamWriter] = {}

    async def open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=LINE_BYTES_MAX)
        self.path.chmod(0o600)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._lines.values()):
                writer.close()
        self.path.unlink(missing_ok=True)

    async def order(self, key: AgentKey, word: OrderWord) -> bool:
        """Tell whoever starts an agent what to do when it ends; False where nobody is there to hear it."""
        writer = self._lines.get(key)
        if writer is None or writer.is_closing():
            return False
        writer.write(_encoder.encode(Order(order=word)) + b"\n")
        with suppress(ConnectionError):
            await writer.drain()
            return True
        return False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key: AgentKey | None = None
        try:
            async with asyncio.timeout(CLAIM_SECONDS):
                line = await reader.readline()
            key, answer = await self._claim(line, *_peer(writer))
            writer.write(_encoder.encode(answer) + b"\n")
            await writer.drain()
            if key is None:
                return
            self._lines[key] = writer
            while line := await reader.readline():
                _read(line, News)
                await self._look_after(key)
        except (TimeoutError, ConnectionError, ValueError, HomeostatError) as problem:
            log.debug("a line to the custody desk ended: %s", problem)
        finally:
            if key is not None and self._lines.get(key) is writer:
                del self._lines[key]
                self._processes.unshare(key)
                if key not in self._immune.enforcement.unsettled:  # else it is told that there is nobody left to hold
                    with suppress(HomeostatError):
                        await self._processes.let_go(key)
            writer.close()

    async def _claim(self, line: bytes, pid: int, uid: int) -> tuple[AgentKey | None, Answer]:
        try:
            claim = _read(line, Claim)
            member = await self._fleet.identify(claim.api_key)
            key = (member.entry.project, member.entry.agent_id)
            if uid != os.geteuid():
                raise CustodyRefused(pid=pid, problem="it belongs to another user")
            if claim.control_url:
                await self._take_address(key, pid, claim.control_url)
            if claim.shared:
                self._processes.share(key, pid)
            else:
                await self._processes.take(key, pid, uid=uid, supervises=claim.supervises)
            await self._look_after(key)
            return key, Answer(taken=True, message=self._awaits(key))
        except HomeostatError as problem:
            return None, Answer(taken=False, code=problem.code, message=str(problem))

    def _awaits(self, key: AgentKey) -> str:
        """What whoever starts an agent that may not run has to know, lest it wonders why nothing happens."""
        patient = next((one for one in self._immune.orchestrator.to_be_held() if one.key == key), None)
        if patient is None:
            return ""
        way_out = f"until it is let go: homeostat release {key[1]}"
        match stance_of(patient, self._processes):
            case Stance.CLOSED:
                return f"{key[1]} is {patient.phase} ({patient.cause}), so it stands still {way_out}"
            case Stance.ENDED:
                return f"{key[1]} was killed ({patient.cause}), so it is ended whenever it begins, {way_out}"
            case Stance.OPEN | Stance.DRAINING:
                return ""

    async def _take_address(self, key: AgentKey, pid: int, url: str) -> None:
        """Take orders' address from a process of this machine: only one at which that very process listens."""
        try:
            parts = web_address(url)
        except InvalidRequest as problem:
            raise CustodyRefused(pid=pid, problem=problem.message) from problem
        if parts.scheme != "http" or parts.hostname != "127.0.0.1" or parts.port not in proc.listening(pid):
            raise CustodyRefused(pid=pid, problem=f"it does not listen at {url[:200]}")
        control = Control(
            project=key[0],
            agent_id=key[1],
            url=f"http://127.0.0.1:{parts.port}",
            by=f"process {pid} of the same user",
            at_ms=self._immune.clock.now_ms(),
            private=True,
        )
        await self._immune.enforcement.store.put_control(control)

    async def _look_after(self, key: AgentKey) -> None:
        """An agent that is isolated does not come back by starting anew."""
        await self._processes.gather(key)
        await self._immune.hold_again(key)


def _read(line: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(line, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise MalformedPayload(field="line", problem=str(problem)) from problem


def _peer(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """Who is at the other end, by the kernel's word."""
    link: socket.socket = writer.get_extra_info("socket")
    pid, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return pid, uid


def socket_path(settings: Settings) -> Path:
    """In the data directory; where its name is too long for a socket, in a directory of our own."""
    path = settings.data_dir / SOCKET_FILE
    if not settings.ephemeral and settings.store_url is None and len(os.fsencode(path)) <= PATH_BYTES_MAX:
        return path
    name = digest_of(f"{settings.data_dir}:{os.getpid() if settings.ephemeral else ''}")[:12]
    own = Path(tempfile.gettempdir()) / f"homeostat-{os.geteuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    found = own.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise CustodyRefused(pid=0, problem=f"{own} is not a directory of our own")
    return own / f"{name}.sock"


async def open_custody(
    settings: Settings, holding: Holding, stack: AsyncExitStack, fleet: Fleet, immune: Immune
) -> CustodyDesk | None:
    """A desk, where this machine has what it needs; without one, agents are held by the kernel and the gateway."""
    if not hasattr(socket, "SO_PEERCRED") or not hasattr(os, "pidfd_open"):
        return None
    try:
        desk = CustodyDesk(
            path=socket_path(settings),
            processes=holding.processes,
            fleet=fleet,
            immune=immune,
            control_key=holding.control_key,
        )
        await desk.open()
    except (OSError, CustodyRefused) as problem:
        log.warning("no process can be taken into custody: %s", problem)
        return None
    stack.push_async_callback(desk.close)
    return desk
