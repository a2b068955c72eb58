"""The one door through which identity and randomness enter.

Ids are time-ordered, so an index on them grows at its right edge: a prefix that names the kind, 48 bits of
milliseconds, 48 bits that are random at the start of each millisecond and counted up within it.
"""

import hashlib
import hmac
import os
import random
import re
from collections.abc import Iterator
from typing import Final, NewType, Protocol

from homeostat.core.clock import Clock, SystemClock
from homeostat.core.limits import NAME_CHARS_MAX

ProjectId = NewType("ProjectId", str)
AgentId = NewType("AgentId", str)
TurnId = NewType("TurnId", str)
InboxId = NewType("InboxId", str)
WorkerId = NewType("WorkerId", str)
BoxId = NewType("BoxId", str)
CardId = NewType("CardId", str)
ToolCallId = NewType("ToolCallId", str)
TraceId = NewType("TraceId", str)
RunId = NewType("RunId", str)
Scope = NewType("Scope", str)
"""The part of an id behind its prefix: a turn, its inbox item and its own output box share one."""

DEFAULT_PROJECT = ProjectId("default")
OPERATOR_KEY_PREFIX: Final = "hk_"

_SCOPE_BYTES = 12
_RANDOM_BITS = 48
_AFTER_BITS = 40
_RANDOM_MAX = (1 << _RANDOM_BITS) - 1


class Entropy(Protocol):
    """Where random bits come from: the operating system, or a seed."""

    def getrandbits(self, k: int, /) -> int: ...


class Chance(random.Random):
    """Randomness that can be repeated: every draw follows from the seed. For simulations, never for secrets."""


# A word that is safe in a path, in a subject and in a key.
_AGENT_ID = re.compile(r"\w[\w.=@+~-]*")
RESERVED_AGENT_IDS: Final = frozenset({"config", "default", "register", "status", "tag", "type"})
"""Words that stand in paths where an agent's id would."""


def is_agent_id(text: str) -> bool:
    """Whether an agent may be called this."""
    return bool(_AGENT_ID.fullmatch(text)) and len(text) <= NAME_CHARS_MAX and text not in RESERVED_AGENT_IDS


class Ids:
    """Mints ids that are unique across processes and strictly increasing within this one."""

    __slots__ = ("_clock", "_entropy", "_last")

    def __init__(self, *, clock: Clock | None = None, entropy: Entropy | None = None) -> None:
        self._clock = clock or SystemClock()
        self._entropy = entropy or random.SystemRandom()
        self._last = 0

    def scope(self) -> Scope:
        """Twenty-four hex digits, larger than any this instance gave before."""
        now = self._clock.now_ms()
        if now > self._last >> _RANDOM_BITS:
            self._last = (now << _RANDOM_BITS) | self._entropy.getrandbits(_RANDOM_BITS - 1)
        else:
            self._last += 1
        return self._last.to_bytes(_SCOPE_BYTES).hex()  # pyright: ignore[reportReturnType] - one for every call and turn

    def scope_after(self, before: str) -> Scope:
        """One that is larger than another process's, too, whose clock may have been ahead."""
        scope = self.scope()
        if scope > before:
            return scope
        # It does not count on by one, as whoever gave that one does, and its own later ones stay as they are.
        return Scope(f"{int(before, 16) + 1 + self._entropy.getrandbits(_AFTER_BITS):024x}")

    def scopes(self) -> Iterator[Scope]:
        """As many as somebody needs at one time: the clock is read for the first."""
        yield self.scope()
        while True:
            self._last += 1
            yield Scope(f"{self._last:024x}")

    def worker(self, mark: str = "") -> WorkerId:
        """A worker's id. Behind its scope it carries the mark of whom it was minted for, if that is bounded."""
        return WorkerId(f"wrk_{self.scope()}_{mark}" if mark else "wrk_" + self.scope())

    def agent(self, agent_type: str) -> AgentId:
        return AgentId(f"{agent_type[:16]}-{self.scope()}")

    def run(self) -> RunId:
        return RunId("run_" + self.scope())

    def trace(self) -> TraceId:
        """A W3C trace id."""
        return TraceId(f"{self._entropy.getrandbits(128):032x}")

    def span(self) -> str:
        """A W3C span id."""
        return f"{self._entropy.getrandbits(64) or 1:016x}"

    def request_key(self) -> str:
        """An Idempotency-Key for one request, however often it has to be sent."""
        return f"req_{self._entropy.getrandbits(128):032x}"

    def secret(self) -> str:
        """An API key: shown once, kept only as its digest."""
        return f"hs_{self._entropy.getrandbits(192):048x}"

    def operator_key(self) -> str:
        """The key of a person or a program, told from an agent's by how it begins."""
        return f"{OPERATOR_KEY_PREFIX}{self._entropy.getrandbits(192):048x}"

    def token(self) -> str:
        """What a browser holds: nobody guesses it."""
        return f"{self._entropy.getrandbits(256):064x}"

    def signing_seed(self) -> str:
        """What a signing key is made of, in hex."""
        return f"{self._entropy.getrandbits(256):064x}"

    def uniform(self, low: float, high: float) -> float:
        """A number between two bounds, for jitter."""
        return low + (high - low) * (self._entropy.getrandbits(32) / 0xFFFFFFFF)


def turn_of(scope: Scope) -> TurnId:
    return TurnId("turn_" + scope)


def inbox_of(turn_id: TurnId) -> InboxId:
    return InboxId("msg_" + turn_id[5:])


def box_of(turn_id: TurnId) -> BoxId:
    """A turn's own output box."""
    return BoxId("box_" + turn_id[5:])


def scope_of(identifier: str) -> Scope:
    """Read back the part that a turn, its inbox item and its box have in common."""
    return Scope(identifier.split("_", 2)[1])


def scope_floor(instant_ms: int) -> Scope:
    """The smallest scope that could have been minted at an instant: retention walks up to it."""
    return Scope(f"{max(0, instant_ms) << _RANDOM_BITS:024x}")


def scope_named(instant_ms: int, name: str) -> Scope:
    """The scope of something that follows from what is known, so that whoever derives it again finds the same."""
    digest = int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:16])
    return Scope(f"{(max(0, instant_ms) << _RANDOM_BITS) | (digest & ((1 << _RANDOM_BITS) - 1)):024x}")


_MARKED: Final = re.compile(r"wrk_[0-9a-f]{24}_([0-9a-f]{32})")


def mark_of(project: ProjectId, agent_id: AgentId | None = None) -> str:
    """The mark of a worker that acts in one project, or for one agent of it. Neither name has a line break."""
    return digest_of(project if agent_id is None else f"{project}\n{agent_id}")


def mark_in(worker_id: str) -> str:
    """The mark that a worker's id carries; none is that of a worker without bounds."""
    found = _MARKED.fullmatch(worker_id)
    return "" if found is None else found[1]


def is_within(mark: str, project: ProjectId, agent_id: AgentId) -> bool:
    """Whether a worker of this mark may act for an agent."""
    return not mark or mark in (mark_of(project, agent_id), mark_of(project))


def card_of(scope: Scope, position: int, digest: str) -> CardId:
    """A card's address is its birthplace and the digest of what it holds."""
    return CardId(f"card_{scope}_{position}_{digest}")


def digest_of(text: str) -> str:
    """The first 128 bits of SHA-256, in hex."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def key_digest(secret: str) -> str:
    """What is stored of an API key."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same_digest(one: str, other: str) -> bool:
    """Compare two digests in constant time."""
    return hmac.compare_digest(one, other)


def private_key(size: int) -> bytes:
    """Bytes that nobody can guess, to sign with."""
    return os.urandom(size)


def process_seed() -> int:
    """A seed for one process, printed where a run must be repeatable."""
    return int.from_bytes(os.urandom(6), "big")


Luck = random.Random
"""What `chance` gives, for whoever takes it."""


def chance(*seeds: object) -> Chance:
    """Randomness that repeats: the same seeds give the same sequence, in every process."""
    text = "\0".join(str(seed) for seed in seeds)
    return Chance(hashlib.sha256(text.encode()).digest())
