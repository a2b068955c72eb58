"""A model that needs no network: shaped like OpenAI's and Anthropic's, the same answer to the same question."""

from homeostat.adapters.upstreams.simulated.mind import Mind, ModelCall, Prompt, Reply, Said, ToolOffer
from homeostat.adapters.upstreams.simulated.upstream import Pace, SimulatedUpstream

__all__ = ["Mind", "ModelCall", "Pace", "Prompt", "Reply", "Said", "SimulatedUpstream", "ToolOffer"]
