"""An agent of the OpenAI Agents SDK. `pip install 'homeostat[openai-agents]'`.

By the base URL alone, with not a line changed:
homeostat exec -- python -m examples.frameworks.openai_agents_sdk "How is the weather in Oslo?"

In a durable turn:
homeostat worker examples.frameworks.openai_agents_sdk:answer --agent-id assistant
homeostat enqueue assistant '{"question": "How is the weather in Oslo?"}' --wait 30
"""

import asyncio
import sys

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from homeostat import Turn
from homeostat.client.access import model_access

set_tracing_disabled(True)  # traces would go past the gateway


@function_tool
def weather(city: str) -> str:
    """Say how the weather is in a city."""
    return f"It rains in {city}."


async def ask(question: str, **access: str) -> str:
    """Run the agent to its end; without access of its own its model is where the environment says."""
    async with AsyncOpenAI(**access) as client:
        agent = Agent(
            name="assistant",
            instructions="Answer in one sentence.",
            model=OpenAIResponsesModel("gpt-4o-mini", client),
            tools=[weather],
        )
        return str((await Runner.run(agent, question)).final_output)


async def answer(turn: Turn) -> dict[str, str]:
    """The adapter: the agent runs as one step, under its own key."""
    access = model_access(turn.agent_id)
    text = await turn.step(
        "agent", lambda: ask(turn.input["question"], base_url=access.base_url, api_key=access.api_key)
    )
    return {"answer": text}


if __name__ == "__main__":
    print(asyncio.run(ask(sys.argv[1])))
