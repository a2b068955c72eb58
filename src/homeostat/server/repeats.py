"""A POST is repeated under its Idempotency-Key: it happens once, and is answered as it was the first time."""

import base64
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from homeostat.access.errors import RequestUnderWay, SecretNotKept
from homeostat.app.assemble import System
from homeostat.core.clock import Millis
from homeostat.core.codec import Json, read_as
from homeostat.core.errors import IdempotencyKeyReused
from homeostat.core.ids import digest_of
from homeostat.core.records.access import Request
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Endpoint

KEPT_WITH_THE_WORK: Final = frozenset(
    {
        # The kernel keeps these answers in the transaction that does the work.
        *("send_message", "report", "stop_turn", "create_box", "fork_box", "register"),
        *("write_cards", "suspend_turn", "release_turn"),
        # A run remembers the keys of requests that changed it, in the transaction in which they did.
        *("create_run", "plan_run", "apply_run", "pause_run", "resume_run", "kill_run", "approve_task", "reject_task"),
    }
)
NEED_NO_KEY: Final = frozenset(
    {
        # A beat is a beat, and a claim or a delivery that is repeated is answered by what is so.
        *("push_status", "open_session", "host_agents", "claim_turns", "renew_lease", "store_step", "swap_boxes"),
        *("deliver_turn", "emit_chunk", "register_tools", "take_calls"),
        # Each login is its own.
        *("login", "logout", "make_ticket"),
    }
)
SEE_TO_IT_THEMSELVES: Final = KEPT_WITH_THE_WORK | NEED_NO_KEY
HOLD_SECRETS: Final = frozenset({"create_key", "rotate_key"})
KEPT_SECONDS: Final = 86_400
ABANDONED_SECONDS: Final = 60
TIDY_SECONDS: Final = 60.0
ANSWER_BYTES_MAX: Final = 1 << 20


class _Kept(msgspec.Struct, frozen=True):
    """An answer as it is kept."""

    status: int
    body: str
    media_type: str
    etag: str | None = None


class Repeats:
    """Keeps the answers of those routes that do not do so themselves."""

    def __init__(self, system: System) -> None:
        self._store = system.access.store
        self._clock = system.clock
        self._tidied = 0.0

    async def once(self, call: Call, endpoint: Endpoint, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Do the work, unless it was done under this key before."""
        if endpoint.method != "POST" or endpoint.name in SEE_TO_IT_THEMSELVES or not call.headers.get(_HEADER):
            return await work()
        await call.read(endpoint.body_bytes_max)
        said = call.idempotency
        assert said is not None
        caller = call.principal
        asked = digest_of(f"{caller.kind} {call.scope['query_string'].decode('latin-1')}\n{said.fingerprint}")
        request = Request(project=call.project, actor=caller.name, key=said.said, fingerprint=asked)
        now = self._clock.now_ms()
        await self._tidy(now)
        before = await self._store.claim(request, now, Millis(now - ABANDONED_SECONDS * 1000))
        if before is not None:
            if before.fingerprint not in {asked, said.fingerprint}:  # the latter of a claim made by an older version
                raise IdempotencyKeyReused(key=said.said)
            if before.answer is None:
                raise RequestUnderWay(key=said.said)
            return _read(before.answer)
        try:
            answer = await work()
        except BaseException:
            await self._store.drop_claim(request)
            raise
        if endpoint.name in HOLD_SECRETS:
            await self._store.keep_answer(request, Json(msgspec.json.encode(_SECRET).decode()))
        elif len(answer.body) <= ANSWER_BYTES_MAX:
            await self._store.keep_answer(request, _written(answer))
        return answer

    async def _tidy(self, now: Millis) -> None:
        moment = self._clock.monotonic()
        if moment - self._tidied >= TIDY_SECONDS:
            self._tidied = moment
            await self._store.forget_repeats(Millis(now - KEPT_SECONDS * 1000))


_HEADER: Final = b"idempotency-key"
_SECRET: Final = _Kept(0, "", "")


def _written(answer: Answer) -> Json:
    etag = next((value.decode() for name, value in answer.headers if name == b"etag"), None)
    body = base64.b64encode(answer.body).decode()
    return Json(msgspec.json.encode(_Kept(answer.status, body, answer.media_type.decode(), etag)).decode())


def _read(kept: Json) -> Answer:
    answer = read_as(_Kept, kept)
    if answer.status == 0:
        raise SecretNotKept
    headers = [(b"idempotency-replayed", b"true")]
    if answer.etag is not None:
        headers.append((b"etag", answer.etag.encode()))
    return Answer(answer.status, base64.b64decode(answer.body), answer.media_type.encode(), tuple(headers))
