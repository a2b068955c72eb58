"""What is to be otherwise in a replay that asks "what if": a prompt, a model, or which models and tools are allowed."""

from collections.abc import Sequence
from dataclasses import dataclass

from homeostat.agent.orchestrator import Factory
from homeostat.agent.protocol import ProcessingAgent
from homeostat.agent.react import ReActAgent
from homeostat.gateway.patterns import NameFilter
from homeostat.runs.replaying.replay import FindFactory
from homeostat.runs.replaying.rules import Rules
from homeostat.runs.replaying.tape import TurnEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Other words, another model, other rules. Names may have a `*` for any part."""

    prompt: str | None = None
    model: str | None = None
    allow_models: Sequence[str] = ()
    deny_models: Sequence[str] = ()
    allow_tools: Sequence[str] = ()
    deny_tools: Sequence[str] = ()

    def __bool__(self) -> bool:
        return self.rules is not None or self.prompt is not None or self.model is not None

    @property
    def rules(self) -> Rules | None:
        """What would be refused, if anything is said of it."""
        if not (self.allow_models or self.deny_models or self.allow_tools or self.deny_tools):
            return None
        return Rules(
            models=NameFilter(allow=self.allow_models, deny=self.deny_models),
            tools=NameFilter(allow=self.allow_tools, deny=self.deny_tools),
        )

    def applied(self, find: FindFactory) -> FindFactory:
        """The same agents with another prompt or model, where they have a profile."""
        if self.prompt is None and self.model is None:
            return find

        def changed(end: TurnEnded) -> Factory:
            factory = find(end)

            def make() -> ProcessingAgent:
                made = factory()
                if isinstance(made, ReActAgent):
                    return made.with_profile(system_prompt=self.prompt, model=self.model)
                return made

            return make

        return changed
