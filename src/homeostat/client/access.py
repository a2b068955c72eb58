"""Where an agent that brings its own framework finds its models: the gateway's base URL, and the agent's own key."""

import os
from dataclasses import dataclass, field

from homeostat.client.client import KEY_VARIABLE, PROJECT_VARIABLE, URL_DEFAULT, URL_VARIABLE
from homeostat.client.keys import KEYS_FILE, KeyRing, default_data_dir
from homeostat.core.errors import Unauthenticated
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """What every client of a model asks for."""

    base_url: str
    api_key: str = field(repr=False)


def model_access(agent_id: str, *, upstream: str = "openai") -> ModelAccess:
    """How an agent that is hosted on this machine reaches the gateway under its own name.

    Its key is the one it was registered with here, else HOMEOSTAT_KEY. Raises `Unauthenticated` where there is none.
    """
    environment = os.environ
    url = (environment.get(URL_VARIABLE) or URL_DEFAULT).rstrip("/")
    keys = KeyRing(default_data_dir(environment) / KEYS_FILE, url=url)
    keys.open()
    project = ProjectId(environment.get(PROJECT_VARIABLE) or DEFAULT_PROJECT)
    key = keys.get((project, AgentId(agent_id))) or environment.get(KEY_VARIABLE)
    if not key:
        raise Unauthenticated
    return ModelAccess(f"{url}/{upstream}" + ("" if upstream.startswith("anthropic") else "/v1"), key)
