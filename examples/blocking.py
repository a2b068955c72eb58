"""An agent without `async`: everything in it runs in a thread.

homeostat worker examples.blocking:Thumbnailer --agent-id thumbnailer
homeostat enqueue thumbnailer '"a picture of a fox"' --wait
"""

import hashlib
from typing import Any

from homeostat import LifecycleConfig, ManagedAgent, Turn


class Thumbnailer(ManagedAgent):
    """Computes something slow, once per turn."""

    def _do_startup(self, config: LifecycleConfig) -> None:
        self.salt = b"thumbnails"

    def _do_process(self, turn: Turn, /) -> dict[str, Any]:
        digest = turn.blocking.step("digest", self._digest, str(turn.input))
        return {"thumbnail": digest}

    def _digest(self, text: str) -> str:
        return hashlib.pbkdf2_hmac("sha256", text.encode(), self.salt, 1_000).hex()[:16]
