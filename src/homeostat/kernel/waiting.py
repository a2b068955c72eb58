"""A command and whoever waits for it: for its answer, or for what that leads to."""

import asyncio
from typing import Any

from homeostat.kernel import commands as c
from homeostat.kernel.decide import Pending
from homeostat.kernel.deliverables import Listener


class Waiting(Pending):
    """A command and the caller who waits for its answer, or for what its answer leads to."""

    __slots__ = ("future", "lasting", "settled")

    def __init__(self, command: c.Command, future: "asyncio.Future[Any] | Listener", *, lasting: bool = False) -> None:
        super().__init__(command)
        self.future = future
        self.lasting = lasting
        self.settled = False

    async def settlement(self) -> Any:
        """The answer, durable, for a caller who waited for more and has not got it in time; it may be an error."""
        if not self.settled:
            settled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self.lasting, self.future = False, settled
            await settled
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
