"""People who log in with an OpenID provider: authorization code with PKCE, and a signed answer that is checked."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import urlencode, urlsplit

import httpx2
import msgspec

from homeostat.core.errors import SettingInvalid
from homeostat.core.ids import Ids, same_digest
from homeostat.core.ports.provider import Journey, LoginFailed
from homeostat.core.records.access import Principal, PrincipalKind, Role

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")  # no shared secrets, no "none"
ANSWER_SECONDS: Final = 10.0
LEEWAY_SECONDS: Final = 60
ANSWER_BYTES_MAX: Final = 1 << 20
RANKS: Final = (Role.ADMIN, Role.OPERATOR, Role.APPROVER, Role.VIEWER)


class OidcProvider:
    """One provider. What a claim says of somebody decides their role; whoever it says nothing of stays outside."""

    def __init__(
        self,
        *,
        issuer: str,
        client_id: str,
        client_secret: str,
        claim: str,
        roles: Sequence[tuple[str, Role]],
        ids: Ids,
    ) -> None:
        try:
            import jwt  # noqa: PLC0415 — an extra
        except ImportError:
            raise SettingInvalid(setting="oidc_issuer", problem="it needs `pip install homeostat[oidc]`") from None
        if not client_id or not roles:
            raise SettingInvalid(setting="oidc_issuer", problem="it needs oidc_client_id and oidc_roles beside it")
        host = urlsplit(issuer).hostname or ""
        if not issuer.startswith("https:") and host not in {"localhost", "127.0.0.1", "::1"}:
            raise SettingInvalid(setting="oidc_issuer", problem="it must be reached over https")
        self._jwt = jwt
        self._issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._claim = claim
        self._roles = roles
        self._ids = ids
        self._http = httpx2.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False, follow_redirects=False)
        self._found: dict[str, Any] = {}

    async def close(self) -> None:
        await self._http.aclose()

    async def depart(self, redirect_uri: str) -> tuple[str, Journey]:
        journey = Journey(
            state=self._ids.token(), nonce=self._ids.token(), verifier=self._ids.token(), redirect_uri=redirect_uri
        )
        question = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid profile email",
            "state": journey.state,
            "nonce": journey.nonce,
            "code_challenge": challenge_of(journey.verifier),
            "code_challenge_method": "S256",
        }
        where = await self._endpoint("authorization_endpoint")
        return f"{where}{'&' if '?' in where else '?'}{urlencode(question)}", journey

    async def arrive(self, journey: Journey, *, state: str, code: str) -> Principal:
        if not same_digest(state, journey.state):
            raise LoginFailed(problem="it answers a question that this browser did not ask")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": journey.redirect_uri,
            "client_id": self._client_id,
            "code_verifier": journey.verifier,
        }
        if self._client_secret:
            form["client_secret"] = self._client_secret
        answer = await self._ask("POST", await self._endpoint("token_endpoint"), form)
        claims = await self._checked(str(answer.get("id_token", "")))
        if not same_digest(str(claims.get("nonce", "")), journey.nonce):
            raise LoginFailed(problem="its token belongs to another login")
        if str(claims.get("email_verified", True)).lower() == "false":
            claims.pop("email", None)  # anybody may have written it there
        name = str(claims.get("email") or claims.get("preferred_username") or claims["sub"])
        return Principal(kind=PrincipalKind.PERSON, name=name[:200], role=self._role(claims))

    def _role(self, claims: Mapping[str, Any]) -> Role:
        """The highest role that any of somebody's groups has here."""
        said = claims.get(self._claim)
        listed = cast("list[object]", said) if isinstance(said, list) else [said]
        groups = {group for group in listed if isinstance(group, str)}
        found = {role for group, role in self._roles if group in groups}
        for role in RANKS:
            if role in found:
                return role
        raise LoginFailed(problem=f"nothing in {self._claim!r} has a role here")

    async def _checked(self, token: str) -> dict[str, Any]:
        jwt = self._jwt
        try:
            header = jwt.get_unverified_header(token)
            keys = jwt.PyJWKSet.from_dict(await self._ask("GET", await self._endpoint("jwks_uri"))).keys
            key = next((one for one in keys if one.key_id == header.get("kid")), keys[0] if len(keys) == 1 else None)
            if key is None or header.get("alg") not in ALGORITHMS:
                raise LoginFailed(problem="its token is signed by nobody we know")
            return jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._client_id,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "sub", "aud", "iss"]},
            )
        except (jwt.PyJWTError, AttributeError, TypeError, ValueError) as problem:  # its library expects good keys
            raise LoginFailed(problem=f"its token does not hold ({type(problem).__name__})") from problem

    async def _endpoint(self, name: str) -> str:
        if not self._found:
            found = await self._ask("GET", self._issuer.rstrip("/") + "/.well-known/openid-configuration")
            if found.get("issuer") != self._issuer:
                raise LoginFailed(problem="it calls itself by another name than oidc_issuer has")
            self._found = found
        if not isinstance(where := self._found.get(name), str):
            raise LoginFailed(problem=f"it names no {name}")
        return where

    async def _ask(self, method: str, url: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
        try:
            answer = await self._http.request(method, url, data=form)
            if answer.status_code != 200 or len(answer.content) > ANSWER_BYTES_MAX:
                raise LoginFailed(problem=f"{urlsplit(url).path} answered {answer.status_code}")
            return msgspec.json.decode(answer.content, type=dict[str, Any])
        except (httpx2.HTTPError, httpx2.InvalidURL, msgspec.MsgspecError, UnicodeDecodeError) as problem:
            raise LoginFailed(problem=f"{urlsplit(url).path}: {type(problem).__name__}") from problem


def challenge_of(verifier: str) -> str:
    """What proves later that whoever asks for the token is whoever began (RFC 7636, S256)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
