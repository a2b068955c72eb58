"""Heartbeats from an agent: as often as the server wishes, through its restarts, and never in the agent's way."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from homeostat.client.pulse import Pulse, Queue
from homeostat.core.errors import (
    AgentExpired,
    AgentGone,
    HomeostatError,
    Unauthenticated,
    Unavailable,
)
from homeostat.core.ids import AgentId
from homeostat.core.limits import HOSTNAME_CHARS_MAX, PUSH_INTERVAL_SECONDS_DEFAULT, VERSION_CHARS_MAX
from homeostat.core.wire import answers as a
from homeostat.core.wire.fleet import HeartbeatReceipt

if TYPE_CHECKING:
    from homeostat.client.client import Client

log = logging.getLogger(__name__)

JITTER: Final = 0.1  # a heartbeat comes up to this part of its interval early, never late
BACKOFF_SECONDS: Final = (0.2, 10.0)  # the first pause while the server is away, and the longest
ENTRY_SECONDS: Final = 1.0  # how long an agent waits for a server that is away before it begins without one
FAREWELL_SECONDS: Final = 2.0  # what a last word may take
VERSION_VARIABLE: Final = "HOMEOSTAT_AGENT_VERSION"

Keep = Callable[[str], None]
Measure = Callable[[], Awaitable[int | None]]


def whereabouts(version: str | None = None) -> dict[str, Any]:
    """Where this process runs, and which version of the agent it is; what cannot be part of a version is left out."""
    told = "".join(filter(str.isprintable, version or os.environ.get(VERSION_VARIABLE) or ""))
    return {
        "hostname": socket.gethostname()[:HOSTNAME_CHARS_MAX] or None,
        "pid": os.getpid(),
        "version": told[:VERSION_CHARS_MAX] or None,
    }


class Beater:
    """Sends one agent's heartbeats. An agent the server does not know any more is registered again, as who it was."""

    def __init__(
        self,
        client: "Client",
        *,
        agent_type: str,
        agent_id: str | None,
        tags: tuple[str, ...] | None,
        api_key: str | None,
        pulse: Pulse,
        project: str | None = None,
        keep: Keep | None = None,
        depth: Measure | None = None,
        version: str | None = None,
    ) -> None:
        self._client = client
        self._project = project or client.project
        self._agent_type = agent_type
        self._tags = tags
        self._keep = keep
        self._depth = depth
        self._version = version
        self.pulse = pulse
        self.agent_id = agent_id
        self.api_key = api_key
        self.interval_seconds = PUSH_INTERVAL_SECONDS_DEFAULT
        self.beats = 0
        self.registrations = 0
        self.ended: HomeostatError | None = None

    async def register(self, *, retry_seconds: float | None = None) -> None:
        """Make the agent known, or known again under its id and key."""
        body: dict[str, Any] = {
            "agent_type": self._agent_type,
            "agent_id": self.agent_id,
            "tags": self._tags,
            **whereabouts(self._version),
            "api_key": self.api_key,
        }
        said = {name: value for name, value in body.items() if value is not None}
        answer = await self._client.transport.send(
            "POST", "/v1/agents/register", project=self._project, body=said, retry_seconds=retry_seconds
        )
        given = answer.read(a.Registered)
        self.agent_id = given.agent_id
        self.interval_seconds = given.push_interval_seconds
        self.registrations += 1
        if given.api_key != self.api_key:
            self.api_key = given.api_key
            if self._keep is not None:
                self._keep(given.api_key)

    async def beat(self) -> None:
        """Send one heartbeat; the answer says when the next one is due."""
        if self.agent_id is None or self.api_key is None:
            await self.register(retry_seconds=0)
        assert self.agent_id is not None
        status = self.pulse.read(
            AgentId(self.agent_id), self._agent_type, self._tags or (), interval_seconds=self.interval_seconds
        )
        if self._depth is not None and (depth := await self._depth()) is not None:
            status = msgspec.structs.replace(status, queue_depth=depth)
        answer = await self._client.transport.send(
            "POST", "/v1/agents/status", project=self._project, body=status, bearer=self.api_key, retry_seconds=0
        )
        self.interval_seconds = answer.read(HeartbeatReceipt).push_interval_seconds
        self.beats += 1

    async def run(self) -> None:
        """Beat until cancelled, or until the server says that the agent was deregistered."""
        ids = self._client.transport.ids
        pause = BACKOFF_SECONDS[0]
        while True:
            try:
                await self._beat_known()
            except Unavailable as problem:
                log.info("a heartbeat of %s did not get through: %s", self.agent_id or self._agent_type, problem)
                await asyncio.sleep(ids.uniform(pause / 2, pause))
                pause = min(pause * 2, BACKOFF_SECONDS[1], max(self.interval_seconds, BACKOFF_SECONDS[0]))
                continue
            except HomeostatError as problem:
                self.ended = problem
                log.warning("heartbeats of %s end: %s", self.agent_id or self._agent_type, problem)
                return
            pause = BACKOFF_SECONDS[0]
            await asyncio.sleep(self.pause())

    def pause(self) -> float:
        """How long until the next heartbeat, a little different each time, so that fleets do not beat in step."""
        return self.interval_seconds * self._client.transport.ids.uniform(1 - JITTER, 1)

    async def _beat_known(self) -> None:
        """Beat; whom the server has forgotten introduces itself first. Whom it let go stays away."""
        try:
            await self.beat()
        except (AgentExpired, Unauthenticated) as forgotten:
            log.info("%s registers again: %s", self.agent_id, forgotten)
            await self.register(retry_seconds=0)
            await self.beat()

    async def leave(self) -> None:
        """Take the agent off the register, if that is possible at once."""
        if self.agent_id is None or self.api_key is None or isinstance(self.ended, AgentGone):
            return
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self._client.transport.send(
                    "POST",
                    f"/v1/agents/{self.agent_id}/deregister",
                    project=self._project,
                    bearer=self.api_key,
                    retry_seconds=0,
                )
        except (HomeostatError, TimeoutError) as problem:
            log.info("%s left without a word: %s", self.agent_id, problem)

    async def last_word(self) -> None:
        """Say that the agent stops, if that is possible at once."""
        self.pulse.stopping = True
        if self.api_key is None or self.ended is not None:
            return
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self.beat()
        except (HomeostatError, TimeoutError) as problem:
            log.debug("%s stops without a word: %s", self.agent_id, problem)


class Heartbeat:
    """An agent's registration and heartbeats, for as long as a block runs.

    ```python
    async with client.heartbeat("inference", tags=["gpu"]) as heart:
        with heart.working("obs-456"):
            ...
    ```

    A server that cannot be reached holds nothing up: the block runs, and the agent registers as soon as it can. What
    the author got wrong, such as an id that is taken, is raised when the block is entered.
    """

    def __init__(
        self,
        client: "Client",
        agent_type: str,
        *,
        tags: tuple[str, ...] | None = None,
        agent_id: str | None = None,
        api_key: str | None = None,
        queue: Queue | None = None,
        version: str | None = None,
        deregister: bool = True,
    ) -> None:
        self.pulse = Pulse(clock=client.transport.clock, queue=queue)
        self._beater = Beater(
            client,
            agent_type=agent_type,
            agent_id=agent_id,
            tags=tags,
            api_key=api_key,
            pulse=self.pulse,
            version=version,
        )
        self._deregister = deregister
        self._task: asyncio.Task[None] | None = None
        self.working = self.pulse.working
        self.processed = self.pulse.processed
        self.act = self.pulse.act

    @property
    def agent_id(self) -> str | None:
        """Who the agent is; None as long as no server has been reached."""
        return self._beater.agent_id

    @property
    def api_key(self) -> str | None:
        """The agent's key, which lets it come back as who it was."""
        return self._beater.api_key

    @property
    def interval_seconds(self) -> float:
        """How often it beats, as the server wishes."""
        return self._beater.interval_seconds

    @property
    def beats(self) -> int:
        """How many heartbeats were taken."""
        return self._beater.beats

    @property
    def ended(self) -> HomeostatError | None:
        """Why there are no more heartbeats: an operator deregistered the agent, or the key is not its own."""
        return self._beater.ended

    async def __aenter__(self) -> Self:
        try:
            await self._beater.register(retry_seconds=ENTRY_SECONDS)
        except Unavailable as problem:
            log.warning("the agent runs unregistered until the server is there: %s", problem)
        self._task = asyncio.create_task(self._beater.run(), name="heartbeat")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})
        if self._deregister:
            await self._beater.leave()
        else:
            await self._beater.last_word()
