"""Who repeats on the bus what was said there before: late, out of order, and more than once."""

# pyright: reportUnknownMemberType=false
# nats-py leaves the type of its options open.

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import nats
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from homeostat.core.ids import Chance

SHARE: Final = 0.05
LATE_SECONDS: Final = (0.0, 2.0)
WAITING_MAX: Final = 2_000
MARK: Final = "X-Again"


@asynccontextmanager
async def echoes(url: str, chance: Chance, counts: Counter[str]) -> AsyncGenerator[None]:
    """Repeat some of everything, as the stream's own memory of ids would not stop: under no id."""
    link = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    waiting: set[asyncio.Task[None]] = set()

    async def again(message: Msg) -> None:
        await asyncio.sleep(chance.uniform(*LATE_SECONDS))
        with suppress(NatsError):
            await link.publish(message.subject, message.data, headers={MARK: "1"})
            counts["events repeated late"] += 1

    async def hear(message: Msg) -> None:
        if MARK in (message.headers or {}) or len(waiting) > WAITING_MAX or chance.random() >= SHARE:
            return
        task = asyncio.create_task(again(message))
        waiting.add(task)
        task.add_done_callback(waiting.discard)

    await link.subscribe("hs.v1.>", cb=hear)
    try:
        yield
    finally:
        for task in waiting:
            task.cancel()
        with suppress(NatsError):
            await link.close()
