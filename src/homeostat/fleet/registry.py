"""Who belongs to the fleet: registration, the key that proves it, and leaving."""

import re
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from homeostat.core.clock import Clock, Millis
from homeostat.core.convoy import Convoy
from homeostat.core.errors import (
    AgentExists,
    AgentExpired,
    AgentGone,
    AgentUnknown,
    Forbidden,
    MalformedPayload,
    Overloaded,
    Unauthenticated,
)
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Ids, ProjectId, is_agent_id, key_digest, same_digest
from homeostat.core.limits import (
    FLUSH_CONFLICTS_MAX,
    HOSTNAME_CHARS_MAX,
    PAGE_MAX,
    REGISTRATION_REPEAT_SECONDS,
    REGISTRATIONS_PER_COMMIT_MAX,
    RETENTION_SECONDS,
    SWEEP_ROWS_MAX,
    TAG_CHARS_MAX,
    TAGS_MAX,
    TYPE_CHARS_MAX,
    VERSION_CHARS_MAX,
)
from homeostat.core.ports.fleet import RegistryStore
from homeostat.core.records.fleet import Departure, PushInterval, Registration
from homeostat.fleet.push_rate import BUILT_IN, PushRates

# A word that is safe in a path, in a subject and in a key: no slash, no blank, nothing that is not printed.
_WORD = re.compile(r"[\w][\w.:=@+~-]*")
# Ids begin with their type, and in an id a colon would let one agent's settings pass for those of a type or a tag.
_ID = re.compile(r"[\w][\w.=@+~-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What an agent says when it registers. Without tags of its own it keeps those it had."""

    agent_type: str
    tags: tuple[str, ...] | None = None
    hostname: str | None = None
    pid: int | None = None
    version: str | None = None
    agent_id: AgentId | None = None
    project: ProjectId = DEFAULT_PROJECT
    request_digest: str | None = None


class Member:
    """A registered agent as this process holds it: the interval it was found to have, and when it was last heard."""

    __slots__ = ("entry", "heard_ms", "interval", "interval_ms", "rates_version")

    def __init__(self, entry: Registration) -> None:
        self.entry = entry
        self.interval: PushInterval = BUILT_IN
        self.interval_ms = BUILT_IN.ms
        self.rates_version = -1
        self.heard_ms = 0


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A registration with the key; nobody will be able to show that key again."""

    member: Member
    api_key: str
    was: Registration | None = None

    @property
    def fresh(self) -> bool:
        return self.was is None


class Registry:
    """The register in memory, one with the store: what this process writes it knows at once, the rest by `refresh`."""

    def __init__(self, *, store: RegistryStore, rates: PushRates, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._rates = rates
        self._clock = clock
        self._ids = ids
        self._members: dict[AgentId, Member] = {}
        self._by_digest: dict[str, Member] = {}
        self._ordered: list[AgentId] = []
        self._sizes: Counter[ProjectId] = Counter()
        self._revision = 0
        self._saves: Convoy[tuple[Registration, int | None], Registration | None] = Convoy(
            store.save, limit=REGISTRATIONS_PER_COMMIT_MAX
        )

    def __len__(self) -> int:
        return len(self._members)

    def size(self, project: ProjectId) -> int:
        """How many agents a project has."""
        return self._sizes[project]

    # --- who is there --------------------------------------------------------------------------------------

    def get(self, agent_id: AgentId) -> Member | None:
        return self._members.get(agent_id)

    def members(self, after: AgentId | None = None) -> Iterator[Member]:
        """Everybody behind an id, in order of ids."""
        start = 0 if after is None else bisect_right(self._ordered, after)
        for agent_id in self._ordered[start:]:
            if (member := self._members.get(agent_id)) is not None:
                yield member

    def interval(self, member: Member) -> PushInterval:
        """The interval an agent has now; looked up again only when a setting has changed."""
        if member.rates_version != self._rates.version:
            member.interval = self._rates.of(member.entry)
            member.interval_ms = member.interval.ms
            member.rates_version = self._rates.version
        return member.interval

    def known(self, secret: str) -> Member | None:
        """Whose key this is, as far as this process knows."""
        return self.known_by(key_digest(secret))

    def known_by(self, digest: str) -> Member | None:
        """As `known`, by the digest of the key."""
        return self._by_digest.get(digest)

    async def identify(self, secret: str | None) -> Member:
        """Whose key this is."""
        if not secret:
            raise Unauthenticated
        if (member := self.known(secret)) is not None:
            return member
        entry = await self._store.by_key(key_digest(secret))
        if entry is None:
            raise Unauthenticated
        return self._settled(entry)

    async def holder(self, secret: str) -> Registration | None:
        """Whose key this is or was: one that left may come back with it."""
        return await self._store.by_key(key_digest(secret))

    async def confirm(self, agent_id: AgentId) -> Member:
        """Look into the store whether an agent is still registered."""
        entry = await self._store.registration(agent_id)
        if entry is None:
            raise AgentUnknown(agent_id=agent_id, project=DEFAULT_PROJECT)
        return self._settled(entry)

    async def departed(self, agent_id: AgentId, project: ProjectId) -> bool:
        """Whether the store knows of an agent that left, as long as that is remembered."""
        entry = await self._store.registration(agent_id)
        return entry is not None and entry.gone and entry.project == project

    def _settled(self, entry: Registration) -> Member:
        self._adopt(entry)
        if entry.gone_why is Departure.EXPIRED:
            raise AgentExpired(agent_id=entry.agent_id)
        if entry.gone:
            raise AgentGone(agent_id=entry.agent_id)
        return self._members[entry.agent_id]

    # --- coming and going ----------------------------------------------------------------------------------

    async def admit(self, introduction: Introduction, key: str | None) -> None:
        """Raise what `register` would refuse an agent with now, for whoever has to do something else before."""
        said = checked(introduction)
        known = None if said.agent_id is None else await self._store.registration(said.agent_id)
        if known is not None and (key is not None or not self._repeats(known, said)):
            _proven(known, said, key)

    async def register(self, introduction: Introduction, key: str | None) -> Enrolled:
        """Enter an agent, or let one that proves its key enter again as who it was."""
        said = checked(introduction)
        for _ in range(FLUSH_CONFLICTS_MAX):
            known = None if said.agent_id is None else await self._store.registration(said.agent_id)
            if known is None:
                secret = self._ids.secret()
                entry, base = self._new(said, secret), None
            elif key is None and self._repeats(known, said):
                secret = self._ids.secret()
                entry, base = replace(known, key_digest=key_digest(secret)), known.revision
            else:
                secret = _proven(known, said, key)
                entry, base = _again(known, said), known.revision
            if (written := await self._saves.submit((entry, base))) is not None:
                self._adopt(written)
                return Enrolled(self._members[written.agent_id], secret, known)
        raise Overloaded(problem=f"{said.agent_id} is being registered by many at once")

    def _new(self, said: Introduction, secret: str) -> Registration:
        return Registration(
            agent_id=said.agent_id or self._ids.agent(said.agent_type),
            project=said.project,
            agent_type=said.agent_type,
            tags=said.tags or (),
            hostname=said.hostname,
            pid=said.pid,
            key_digest=key_digest(secret),
            registered_at_ms=self._clock.now_ms(),
            request_digest=said.request_digest,
            version=said.version,
        )

    def _repeats(self, known: Registration, said: Introduction) -> bool:
        """Whether this is the request that entered the agent, sent again because its answer got lost.

        The key that was in that answer is not known any more; a new one takes its place.
        """
        age_ms = self._clock.now_ms() - known.registered_at_ms
        return (
            known.project == said.project
            and said.request_digest is not None
            and said.request_digest == known.request_digest
            and age_ms <= REGISTRATION_REPEAT_SECONDS * 1000
            and not known.gone
        )

    async def leave(self, agent_id: AgentId, why: Departure, project: ProjectId | None = None) -> Registration | None:
        """Take an agent off the register, where a project is named only off that one's; None if it was off already."""
        for _ in range(FLUSH_CONFLICTS_MAX):
            known = await self._store.registration(agent_id)
            if known is None or project not in (None, known.project):
                raise AgentUnknown(agent_id=agent_id, project=project or DEFAULT_PROJECT)
            if known.gone:
                self._adopt(known)
                return None
            gone = replace(known, gone_at_ms=self._clock.now_ms(), gone_why=why)
            if (written := await self._saves.submit((gone, known.revision))) is not None:
                self._adopt(written)
                return written
        raise Overloaded(problem=f"{agent_id} is being registered by many at once")

    # --- keeping up ----------------------------------------------------------------------------------------

    async def refresh(self) -> int:
        """See who came and went in other processes; returns how many entries had changed."""
        seen = 0
        while changed := await self._store.changed(self._revision, PAGE_MAX):
            for entry in changed:
                self._adopt(entry)
                self._revision = entry.revision
            seen += len(changed)
        return seen

    async def forget(self) -> int:
        """Let go of those who left long ago."""
        before = Millis(self._clock.now_ms() - int(RETENTION_SECONDS * 1000))
        return await self._store.forget(before, SWEEP_ROWS_MAX)

    def _adopt(self, entry: Registration) -> None:
        """Hold an entry as the store has it, unless a later one is held."""
        held = self._members.get(entry.agent_id)
        if held is not None and held.entry.revision > entry.revision:
            return
        if held is not None:
            self._sizes[held.entry.project] -= 1
        if not entry.gone:
            self._sizes[entry.project] += 1
        if entry.gone:
            if held is not None:
                del self._members[entry.agent_id]
                self._by_digest.pop(held.entry.key_digest, None)
                del self._ordered[bisect_right(self._ordered, entry.agent_id) - 1]
        elif held is None:
            self._members[entry.agent_id] = self._by_digest[entry.key_digest] = Member(entry)
            insort(self._ordered, entry.agent_id)
        else:
            if held.entry.key_digest != entry.key_digest:
                del self._by_digest[held.entry.key_digest]
                self._by_digest[entry.key_digest] = held
            held.entry = entry
            held.rates_version = -1


def checked(said: Introduction) -> Introduction:
    """Refuse words that could not be part of a path or a key, and anything without bounds."""
    if not _ID.fullmatch(said.agent_type) or len(said.agent_type) > TYPE_CHARS_MAX:
        raise MalformedPayload(field="agent_type", problem=f"{said.agent_type[:40]!r} is not a plain word")
    if said.agent_id is not None and not is_agent_id(said.agent_id):
        raise MalformedPayload(field="agent_id", problem=f"{said.agent_id[:40]!r} cannot be an id")
    if len(said.tags or ()) > TAGS_MAX:
        raise MalformedPayload(field="tags", problem=f"an agent has at most {TAGS_MAX}")
    if said.hostname is not None and (len(said.hostname) > HOSTNAME_CHARS_MAX or not said.hostname.isprintable()):
        raise MalformedPayload(field="hostname", problem="it is not the name of a host")
    if said.version is not None and (len(said.version) > VERSION_CHARS_MAX or not said.version.isprintable()):
        raise MalformedPayload(field="version", problem=f"it is not a line of at most {VERSION_CHARS_MAX} characters")
    tags = None if said.tags is None else tuple(dict.fromkeys(checked_word(tag, field="tags") for tag in said.tags))
    return replace(said, tags=tags)


def checked_word(word: str, *, field: str) -> str:
    """A tag or a type, as it may stand in a path or a key."""
    if not _WORD.fullmatch(word) or len(word) > TAG_CHARS_MAX:
        raise MalformedPayload(field=field, problem=f"{word[:40]!r} is not a plain word")
    return word


def _proven(known: Registration, said: Introduction, key: str | None) -> str:
    """The key of an agent that comes back; it belongs to one project for good."""
    if key is None or known.project != said.project:
        raise AgentExists(agent_id=known.agent_id)
    if not same_digest(key_digest(key), known.key_digest):
        raise Forbidden(verb="register", object=known.agent_id)
    return key


def _again(known: Registration, said: Introduction) -> Registration:
    """An agent that comes back is who it was: same id, same tags unless it names others."""
    return replace(
        known,
        agent_type=said.agent_type,
        tags=known.tags if said.tags is None else said.tags,
        hostname=said.hostname,
        pid=said.pid,
        version=said.version,
        gone_at_ms=None,
        gone_why=None,
    )
