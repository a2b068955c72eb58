"""An answer that comes bit by bit, passed on where it is read: no task as long as nobody has to be waited for."""

from homeostat.core.clock import Clock
from homeostat.core.ports.upstream import Pending
from homeostat.gateway.asgi import AtOnce
from homeostat.gateway.headers import AnswerHeaders
from homeostat.gateway.relay import PING, Relay


class Passage(Relay):
    """A relay that is told when there is more. What the agent does not take stays with the upstream, which waits."""

    def __init__(self, *, request: AtOnce, pending: Pending, headers: AnswerHeaders, clock: Clock) -> None:
        super().__init__(send=request.send, response=pending, headers=headers, clock=clock)
        self._request = request
        self._pending = pending

    def begin(self) -> None:
        """Send the head, with what has come of the body if anything has."""
        self.started = True
        self._request.start(self._pending.status, self._headers.returned)

    def pass_on(self) -> bool:
        """Pass on what is here; says whether that was the last of it. Raises `UpstreamFailed` where it breaks off."""
        request, pending = self._request, self._pending
        now = self._clock.monotonic()
        if request.write_paused:
            self.sending_since = self.sending_since or now
            return False
        self.sending_since = None
        self._heard_at = now
        block = pending.take()
        out = self._pass(block) if block else b""
        if pending.complete:
            out += self._finish()
            self.complete = True
            request.push(out, more=False)
            return True
        if out:
            request.push(out, more=True)
        else:
            request.flush()
        if pending.error is not None:
            raise pending.error
        return False

    def ping(self, now: float, seconds: float) -> None:
        if now - self._heard_at >= seconds and not self._request.write_paused and self.between_events:
            self._heard_at = now
            self._request.push(PING, more=True)
