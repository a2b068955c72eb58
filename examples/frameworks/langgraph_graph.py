"""A LangGraph graph with a tool. `pip install 'homeostat[langgraph]'`.

By the base URL alone, with not a line changed:
homeostat exec -- python -m examples.frameworks.langgraph_graph "How is the weather in Oslo?"

In a durable turn:
homeostat worker examples.frameworks.langgraph_graph:answer --agent-id graph
homeostat enqueue graph '{"question": "How is the weather in Oslo?"}' --wait 30
"""

import asyncio
import sys
from typing import Any

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from homeostat import Turn
from homeostat.client.access import model_access


@tool
def weather(city: str) -> str:
    """Say how the weather is in a city."""
    return f"It rains in {city}."


def build(**access: str) -> Any:
    """The graph; without access of its own its model is where the environment says."""
    model: Any = ChatOpenAI(model="gpt-4o-mini", **access).bind_tools([weather])

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([weather]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile()


async def ask(question: str, **access: str) -> str:
    """Run the graph to its end."""
    ended = await build(**access).ainvoke({"messages": [("user", question)]})
    return str(ended["messages"][-1].content)


async def answer(turn: Turn) -> dict[str, str]:
    """The adapter: the graph runs as one step, under the agent's own key."""
    access = model_access(turn.agent_id)
    text = await turn.step(
        "graph", lambda: ask(turn.input["question"], base_url=access.base_url, api_key=access.api_key)
    )
    return {"answer": text}


if __name__ == "__main__":
    print(asyncio.run(ask(sys.argv[1])))
