"""Durable turns by DBOS Transact: a workflow without steps, or one that waits for a message."""

import asyncio
import logging
import os

from _loop import PAYLOAD, RESULT, arguments, closed_loop
from dbos import DBOS


async def main() -> None:
    url, clients, turns, kind = arguments()
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "run_admin_server": False})

    @DBOS.workflow()
    async def plain(payload: dict) -> dict:
        return RESULT

    @DBOS.workflow()
    async def tool(payload: dict) -> dict:
        await DBOS.recv_async("tool", timeout_seconds=60)
        return RESULT

    DBOS.launch()

    async def turn(client: int, count: int) -> object:
        handle = await DBOS.start_workflow_async(tool if kind == "tool" else plain, PAYLOAD)
        if kind == "tool":
            await DBOS.send_async(handle.workflow_id, {"answer": 1}, "tool")
        return await handle.get_result()

    await closed_loop(turn, clients, turns)
    os._exit(0)


logging.disable(logging.CRITICAL)
asyncio.run(main())
