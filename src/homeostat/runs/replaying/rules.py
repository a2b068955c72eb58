"""The policy of a "what if": which models may be asked and which tools called."""

from dataclasses import dataclass
from typing import Any, cast

from homeostat.agent.asking import Asked
from homeostat.agent.react import LOCAL_TOOL
from homeostat.gateway.patterns import NameFilter


@dataclass(frozen=True, slots=True)
class Rules:
    """Says in words what would have been refused."""

    models: NameFilter
    tools: NameFilter

    def refuse_tool(self, name: str) -> str | None:
        return None if self.tools.allows(name) else f"called `{name}`, which the policy refuses"

    def refuse_model(self, name: str) -> str | None:
        return None if self.models.allows(name) else f"asked model {name!r}, which the policy refuses"

    def refuse_step(self, key: str, asked: Asked | None, model: str) -> str | None:
        """A step may be a model call or a tool that runs inside of its turn."""
        what = None if asked is None else asked["what"]
        if what == "model":
            return self.refuse_model(model)
        if what == "tool":
            return self.refuse_tool(key.removeprefix(LOCAL_TOOL).partition("#")[0])
        return None


def model_of(asked: Asked | None, before: str) -> str:
    """Which model a call asks; what is the same as in the call before is not told again."""
    told = cast("dict[str, Any]", (asked or {}).get("told") or {})
    return str(told.get("model", before))
