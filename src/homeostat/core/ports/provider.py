"""Somebody else who vouches for people: an OpenID provider."""

from dataclasses import dataclass
from typing import Protocol

from homeostat.core.errors import Refused
from homeostat.core.records.access import Principal


class LoginFailed(Refused):
    """The provider's answer does not let anybody in: {problem}."""

    code = "login_failed"
    hint = "Begin again at /v1/login/oidc; whoever runs the server says in oidc_roles who may come in as what."


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """What has to be remembered while a browser is away at the provider."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str


class IdentityProvider(Protocol):
    """Sends a browser away with a question, and reads the answer it comes back with."""

    async def depart(self, redirect_uri: str) -> tuple[str, Journey]:
        """Where the browser goes, and what to remember meanwhile."""
        ...

    async def arrive(self, journey: Journey, *, state: str, code: str) -> Principal:
        """Who it was, proven by the provider. Raises `LoginFailed`."""
        ...

    async def close(self) -> None: ...
