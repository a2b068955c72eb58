"""Heartbeats in Redis, where several processes share them.

The keys others may read, and what stands in them:

agent:status:{id}     JSON of the last heartbeat; expires after five intervals
agent:registry:{id}   JSON of agent_type, tags and registered_at; stays until the agent leaves
agent:active          SET of the ids of all agents that are listed, the dead included
agent:history:{id}    ZSET of JSON samples by the time they were received, trimmed
agent:config:*        push intervals as they are set

And the keeper's own: agent:presence:{id} (HASH: how the agent stands; it outlives the status, or nobody could be dead),
agent:due (ZSET: when each comes up for its next verdict), agent:stale, agent:dead (SETs), agent:looked (when the sweep
last ran), agent:listening (expires by the clock of Redis, unless a sweep runs). All of it can be lost: the register is
in the store, and the rest returns with the next heartbeat.
"""

from collections.abc import Collection, Sequence

import msgspec

from homeostat.adapters.statuses.scripts import ScriptedRedis
from homeostat.core.clock import Millis, rfc3339
from homeostat.core.convoy import Convoy
from homeostat.core.ids import AgentId
from homeostat.core.limits import (
    AGENT_EXPIRY_SECONDS,
    BEATS_PER_ROUND_TRIP_MAX,
    DEAD_INTERVALS,
    HISTORY_SAMPLES_MAX,
    LISTENING_GAP_SECONDS,
    SWEEP_ROWS_MAX,
)
from homeostat.core.machines.liveness import Liveness, verdict_due
from homeostat.core.records.fleet import (
    Admission,
    AgentStatus,
    Beat,
    Census,
    IntervalScope,
    IntervalSetting,
    Mark,
    Registration,
    Roll,
    Sample,
    Silence,
    Standing,
    sample_of,
)

# Lua has no null: what is missing is false.
Held = tuple[Liveness, int, int, int, int, str | bool]
Judged = tuple[str, str | bool, int, int, int]

_GAP_MS = int(LISTENING_GAP_SECONDS * 1000)

_json = msgspec.json.Encoder()
_pack = msgspec.msgpack.Encoder()
_held = msgspec.msgpack.Decoder(list[Held | bool])
_rolled = msgspec.msgpack.Decoder(tuple[list[Judged], int | bool])
_status = msgspec.json.Decoder(AgentStatus)
_sample = msgspec.json.Decoder(Sample)


class RedisStatuses:
    """The keeper that processes share. A heartbeat costs one round trip, or less when many come at once."""

    def __init__(self, *, url: str, expiry_seconds: float = AGENT_EXPIRY_SECONDS) -> None:
        self._redis = ScriptedRedis(url)
        self._expiry_ms = int(expiry_seconds * 1000)
        self._beats: Convoy[Beat, bool] = Convoy(self._carry, limit=BEATS_PER_ROUND_TRIP_MAX)

    # --- coming and going ----------------------------------------------------------------------------------

    async def listen(
        self, now: Millis, known: Sequence[Admission], settings: Sequence[IntervalSetting]
    ) -> Collection[AgentId]:
        held: list[bytes] = await self._redis.run("listen", now, _GAP_MS)
        wanted = {admission.registration.agent_id for admission in known}
        strangers = [AgentId(name) for name in map(bytes.decode, held) if name not in wanted]
        await self.drop(strangers)
        for start in range(0, len(known), SWEEP_ROWS_MAX):
            await self._admit(now, known[start : start + SWEEP_ROWS_MAX], only_new=True)
        for setting in settings:
            await self.show_interval(setting)
        return strangers

    async def admit(self, now: Millis, admission: Admission) -> None:
        await self._admit(now, [admission], only_new=False)

    async def _admit(self, now: Millis, admissions: Sequence[Admission], *, only_new: bool) -> None:
        packed = _pack.encode(
            [
                (
                    admission.registration.agent_id,
                    registry_entry(admission.registration),
                    admission.interval_ms,
                    self._due(Liveness.ALIVE, now, now, admission.interval_ms),
                )
                for admission in admissions
            ]
        )
        await self._redis.run("admit", packed, now, int(only_new))

    async def drop(self, agent_ids: Collection[AgentId]) -> None:
        if agent_ids:
            await self._redis.run("drop", *agent_ids)

    # --- heartbeats ----------------------------------------------------------------------------------------

    async def beat(self, beat: Beat) -> bool:
        return await self._beats.submit(beat)

    async def _carry(self, beats: list[Beat]) -> list[bool]:
        packed = _pack.encode([self._packed(beat) for beat in beats])
        answers: bytes = await self._redis.run("beat", packed, HISTORY_SAMPLES_MAX, _GAP_MS)
        return [letter == ord("+") for letter in answers]

    def _packed(self, beat: Beat) -> tuple[str | int, ...]:
        return (
            beat.status.agent_id,
            beat.received_ms,
            beat.interval_ms,
            self._due(Liveness.ALIVE, beat.received_ms, beat.received_ms, beat.interval_ms),
            DEAD_INTERVALS * beat.interval_ms,
            _json.encode(beat.status).decode(),
            _json.encode(sample_of(beat)).decode(),
        )

    async def learn(self, beats: Sequence[Beat]) -> None:
        """The process that received them has written them here."""

    async def agree(self, agent_id: AgentId, presence: Liveness, since_ms: Millis, interval_ms: int) -> bool:
        """A verdict is passed once, here, by whichever process looks first; all others hear of it."""
        del agent_id, presence, since_ms, interval_ms
        return True

    # --- silence -------------------------------------------------------------------------------------------

    async def roll(self, now: Millis, limit: int) -> Roll:
        answer: bytes | None = await self._redis.run("roll", now, limit, _GAP_MS)
        if answer is None:
            return Roll(lost=True)
        judged, following = _rolled.decode(answer)
        silent = tuple(
            Silence(AgentId(agent_id), Liveness(presence or Liveness.GONE), Millis(counted), interval, Millis(due))
            for agent_id, presence, counted, interval, due in judged
        )
        return Roll(silent, Millis(following) if following else None)

    async def heard_elsewhere(self, silent: Sequence[Silence], now: Millis) -> Collection[AgentId]:
        """What others heard is here."""
        del silent, now
        return ()

    async def mark(self, marks: Sequence[Mark]) -> list[AgentId]:
        packed = _pack.encode(
            [
                (
                    mark.silence.agent_id,
                    mark.silence.due_ms,
                    mark.presence,
                    mark.since_ms,
                    self._due(mark.presence, mark.silence.counted_ms, mark.since_ms, mark.silence.interval_ms),
                )
                for mark in marks
            ]
        )
        answers: bytes = await self._redis.run("mark", packed)
        return [mark.silence.agent_id for mark, letter in zip(marks, answers, strict=True) if letter == ord("+")]

    def _due(self, presence: Liveness, counted_ms: int, since_ms: int, interval_ms: int) -> Millis:
        return verdict_due(
            presence, counted_ms=counted_ms, since_ms=since_ms, interval_ms=interval_ms, expiry_ms=self._expiry_ms
        )

    # --- reading -------------------------------------------------------------------------------------------

    async def standings(self, agent_ids: Sequence[AgentId]) -> dict[AgentId, Standing]:
        found: dict[AgentId, Standing] = {}
        for start in range(0, len(agent_ids), SWEEP_ROWS_MAX):
            wanted = agent_ids[start : start + SWEEP_ROWS_MAX]
            held = _held.decode(await self._redis.run("standings", *wanted))
            found |= {
                a: _standing(a, known) for a, known in zip(wanted, held, strict=True) if not isinstance(known, bool)
            }
        return found

    async def history(self, agent_id: AgentId, *, since: Millis, limit: int) -> list[Sample]:
        found: list[bytes] = await self._redis.command(
            "ZREVRANGEBYSCORE", f"agent:history:{agent_id}", "+inf", since, "LIMIT", 0, limit
        )
        return [_sample.decode(sample) for sample in reversed(found)]

    async def show_interval(self, setting: IntervalSetting) -> None:
        if setting.seconds is None:
            await self._redis.command("DEL", interval_key(setting))
        else:
            await self._redis.command("SET", interval_key(setting), repr(setting.seconds))

    async def census(self) -> Census:
        listed, stale, dead = [
            int(await self._redis.command("SCARD", f"agent:{n}")) for n in ("active", "stale", "dead")
        ]
        return Census(listed - stale - dead, stale, dead)

    async def fallen(self) -> dict[AgentId, Liveness]:
        found: dict[AgentId, Liveness] = {}
        for one in (Liveness.STALE, Liveness.DEAD):
            held: list[bytes] = await self._redis.command("SMEMBERS", f"agent:{one.value}")
            found |= dict.fromkeys(map(AgentId, map(bytes.decode, held)), one)
        return found

    async def save(self) -> None:
        """What is here outlives this process; what outlives Redis is in the store."""

    async def close(self) -> None:
        await self._beats.settle()
        await self._redis.close()


def registry_entry(entry: Registration) -> str:
    return _json.encode(
        {"agent_type": entry.agent_type, "tags": entry.tags, "registered_at": rfc3339(entry.registered_at_ms)}
    ).decode()


def interval_key(setting: IntervalSetting) -> str:
    match setting.scope:
        case IntervalScope.AGENT:
            return f"agent:config:{setting.name}:push_interval"
        case IntervalScope.DEFAULT:
            return "agent:config:default:push_interval"
        case IntervalScope.TAG | IntervalScope.TYPE as scope:
            return f"agent:config:{scope}:{setting.name}:push_interval"


def _standing(agent_id: AgentId, held: Held) -> Standing:
    presence, since, received, counted, interval, last = held
    return Standing(
        agent_id,
        presence,
        Millis(since),
        Millis(received),
        Millis(counted),
        interval,
        _status.decode(last) if isinstance(last, str) else None,
    )
