"""Logging in with an OpenID provider: a small one that speaks the real protocol, and the ways it may lie."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from homeostat.app.assemble import assemble
from homeostat.app.settings import Auth, Settings
from homeostat.core.records.access import Role
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.servers import free_port

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WORD = "sesame"
STRANGER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Provider(ThreadingHTTPServer):
    """Vouches for one person; `lies` changes what its token says."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: dict[str, dict[str, str]] = {}
        self.lies: dict[str, Any] = {}
        self.groups = ["staff", "sre"]
        self.signer = KEY
        self.hides: str | None = None


class Handler(BaseHTTPRequestHandler):
    server: Provider  # pyright: ignore[reportIncompatibleVariableOverride] - it is ours

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature is the library's
        pass

    def answer(self, document: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        url = self.server.url
        if path.endswith("openid-configuration"):
            names = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/jwks"}
            told = {name: url + place for name, place in names.items() if name != self.server.hides}
            self.answer({"issuer": url, **told})
        elif path == "/jwks":
            public = json.loads(RSAAlgorithm.to_jwk(KEY.public_key()))
            self.answer({"keys": [public | {"kid": "one", "use": "sig", "alg": "RS256"}]})
        else:
            asked = {name: values[0] for name, values in query.items()}
            code = f"code-{len(self.server.asked)}"
            self.server.asked[code] = asked
            self.send_response(302)
            self.send_header(
                "location", f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"
            )
            self.end_headers()

    def do_POST(self) -> None:
        form = {n: v[0] for n, v in parse_qs(self.rfile.read(int(self.headers["content-length"])).decode()).items()}
        asked = self.server.asked.pop(form["code"], None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if asked is None or proof != asked["code_challenge"] or form["client_secret"] != WORD:
            self.answer({"error": "invalid_grant"}, 400)
            return
        now = int(time.time())
        claims = {
            "iss": self.server.url,
            "aud": asked["client_id"],
            "sub": "42",
            "email": "ann@example.com",
            "groups": self.server.groups,
            "nonce": asked["nonce"],
            "iat": now,
            "exp": now + 300,
        } | self.server.lies
        token = jwt.encode(claims, self.server.signer, algorithm="RS256", headers={"kid": "one"})
        self.answer({"id_token": token, "token_type": "Bearer", "access_token": "x"})


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        thread = threading.Thread(target=provider.serve_forever, daemon=True)
        thread.start()
        yield provider
        provider.shutdown()
        thread.join()


@asynccontextmanager
async def browser(provider: Provider, tmp_path: Path, **more: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    settings = Settings(
        data_dir=tmp_path,
        auth=Auth.KEYS,
        oidc_issuer=provider.url,
        oidc_client_id="homeostat",
        oidc_client_secret=WORD,
        oidc_roles=(("sre", Role.OPERATOR), ("staff", Role.VIEWER)),
    )
    async with assemble(replace(settings, **more)) as system:
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener), httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http:
            yield http


async def come_back(http: httpx2.AsyncClient) -> httpx2.Response:
    """Follow the way to the provider and back."""
    away = await http.get("/v1/login/oidc")
    assert away.status_code == 303
    back = await http.get(away.headers["location"])
    return await http.get(back.headers["location"])


async def test_somebody_logs_in_with_the_highest_of_their_roles(provider: Provider, tmp_path: Path) -> None:
    async with browser(provider, tmp_path) as http:
        assert (await http.get("/v1/session")).json()["oidc"]
        home = await come_back(http)
        assert (home.status_code, home.headers["location"]) == (303, "/")
        session = (await http.get("/v1/session")).json()
        assert (session["kind"], session["name"], session["role"]) == ("person", "ann@example.com", "operator")
        assert (await http.get("/v1/agents")).status_code == 200
        assert (await http.get("/v1/keys")).status_code == 403


@pytest.mark.parametrize("verified", [False, "false"])
async def test_an_address_that_nobody_verified_names_nobody(
    provider: Provider, tmp_path: Path, verified: object
) -> None:
    provider.lies = {"email_verified": verified, "preferred_username": "mallory"}
    async with browser(provider, tmp_path) as http:
        await come_back(http)
        assert (await http.get("/v1/session")).json()["name"] == "mallory"
    async with browser(provider, tmp_path, oidc_claim="email", oidc_roles=(("ann@example.com", Role.ADMIN),)) as http:
        assert (await come_back(http)).status_code == 403
        provider.lies = {"email_verified": True}
        assert (await come_back(http)).status_code == 303


@pytest.mark.parametrize(
    "lies",
    [
        {"nonce": "another"},
        {"aud": "somebody else"},
        {"iss": "http://127.0.0.1:1"},
        {"exp": 1_000},
        {"groups": ["strangers"]},
        {"groups": None},
        {"groups": 5},
        {"groups": [{"a": 1}, ["sre"]]},
    ],
    ids=str,
)
async def test_an_answer_that_does_not_hold_lets_nobody_in(
    provider: Provider, tmp_path: Path, lies: dict[str, Any]
) -> None:
    provider.lies = lies
    async with browser(provider, tmp_path) as http:
        answer = await come_back(http)
        assert (answer.status_code, answer.json()["code"]) == (403, "login_failed")
        assert (await http.get("/v1/agents")).status_code == 401


async def test_a_signature_of_a_stranger_is_worth_nothing(provider: Provider, tmp_path: Path) -> None:
    provider.signer = STRANGER
    async with browser(provider, tmp_path) as http:
        assert (await come_back(http)).json()["code"] == "login_failed"


async def test_a_provider_that_names_no_place_lets_nobody_in(provider: Provider, tmp_path: Path) -> None:
    provider.hides = "jwks_uri"
    async with browser(provider, tmp_path) as http:
        assert (await come_back(http)).json()["code"] == "login_failed"


async def test_a_journey_is_made_once_and_by_the_browser_that_began_it(provider: Provider, tmp_path: Path) -> None:
    async with browser(provider, tmp_path) as http:
        away = await http.get("/v1/login/oidc")
        back = (await http.get(away.headers["location"])).headers["location"]
        kept = dict(http.cookies)
        http.cookies.clear()
        assert (await http.get(back)).json()["code"] == "login_failed", "another browser's answer"
        http.cookies.update(kept)
        forged = back.replace("state=", "state=0")
        assert (await http.get(forged)).json()["code"] == "login_failed"
        assert (await http.get(back)).json()["code"] == "unauthenticated", "a journey is over once it failed"


async def test_without_a_provider_there_is_nothing_there(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/v1/login/oidc")).json()["code"] == "route_unknown"
