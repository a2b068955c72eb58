"""Durable turns by LangGraph: a graph of one node under a checkpointer that is written before it goes on."""

import asyncio
import contextlib
from typing import TypedDict

from _loop import PAYLOAD, arguments, closed_loop
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    text: str


def plain(state: State) -> State:
    return {"text": "done"}


def tool(state: State) -> State:
    return {"text": str(interrupt("a tool is asked"))}


@contextlib.asynccontextmanager
async def saver(url: str):
    if url.startswith("postgres"):
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(url, max_size=20, kwargs=settings) as pool:
            one = AsyncPostgresSaver(pool)
            await one.setup()
            yield one
    else:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as one:
            await one.conn.execute("PRAGMA journal_mode = WAL")
            await one.conn.execute("PRAGMA synchronous = FULL")
            yield one


async def main() -> None:
    url, clients, turns, kind = arguments()
    graph = StateGraph(State)
    graph.add_node("work", tool if kind == "tool" else plain)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    async with saver(url) as checkpointer:
        compiled = graph.compile(checkpointer=checkpointer)

        async def turn(client: int, count: int) -> object:
            config = {"configurable": {"thread_id": f"{client}-{count}"}}
            answer = await compiled.ainvoke(PAYLOAD, config, durability="sync")
            if kind == "tool":
                answer = await compiled.ainvoke(Command(resume="answer"), config, durability="sync")
            return answer

        await closed_loop(turn, clients, turns)


asyncio.run(main())
