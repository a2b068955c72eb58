"""An agent of PydanticAI. `pip install 'homeostat[pydantic-ai]'`.

By the base URL alone, with not a line changed:
homeostat exec -- python -m examples.frameworks.pydantic_ai_agent "How is the weather in Oslo?"

In a durable turn:
homeostat worker examples.frameworks.pydantic_ai_agent:answer --agent-id pydantic
homeostat enqueue pydantic '{"question": "How is the weather in Oslo?"}' --wait 30
"""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from homeostat import Turn
from homeostat.client.access import model_access


def weather(city: str) -> str:
    """Say how the weather is in a city."""
    return f"It rains in {city}."


async def ask(question: str, **access: str) -> str:
    """Run the agent to its end; without access of its own its model is where the environment says."""
    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(**access))
    agent = Agent(model, instructions="Answer in one sentence.", tools=[weather])
    return (await agent.run(question)).output


async def answer(turn: Turn) -> dict[str, str]:
    """The adapter: the agent runs as one step, under its own key."""
    access = model_access(turn.agent_id)
    text = await turn.step(
        "agent", lambda: ask(turn.input["question"], base_url=access.base_url, api_key=access.api_key)
    )
    return {"answer": text}


if __name__ == "__main__":
    print(asyncio.run(ask(sys.argv[1])))
