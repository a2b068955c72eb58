"""Gives orders to agents where an operator allowed it: signed, not redirected, to no private place by surprise."""

import asyncio
import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import httpx2
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from homeostat.core.clock import Clock
from homeostat.core.enforcement_errors import ControlRefused, ControlUnreachable
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import Ids
from homeostat.core.ports.immune import EnforcementStore
from homeostat.core.records.enforcement import Control
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire.control import (
    NONCE,
    ORDER_BYTES_MAX,
    PATHS,
    SIGNATURE,
    TIMESTAMP,
    OrderAnswer,
    OrderBody,
    signed_text,
)

ORDER_SECONDS: Final = 15.0


class Signer:
    """The key by which agents know that an order is ours."""

    def __init__(self, seed: str) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))

    @property
    def public(self) -> str:
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, text: bytes) -> str:
        return self._key.sign(text).hex()


class ControlClient:
    """One order, one answer. What was not answered was not done, as far as anybody here knows."""

    def __init__(self, *, store: EnforcementStore, signer: Signer, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._signer = signer
        self._clock = clock
        self._ids = ids

    async def order(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        control = await self._store.control(key)
        if control is None:
            return Applied.NOT_APPLICABLE, "it takes no orders: no address of it is known"
        try:
            answer = await self._send(control, PATHS[action], OrderBody(project=key[0], agent_id=key[1], reason=reason))
        except HomeostatError as problem:
            return Applied.FAILED, str(problem)
        return answer.applied, answer.note

    async def _send(self, control: Control, path: str, order: OrderBody) -> OrderAnswer:
        body = msgspec.json.encode(order)
        stamp, nonce = str(self._clock.now_ms()), self._ids.request_key()
        url, host = await self._address(control)
        headers = {
            "content-type": "application/json",
            "host": host,
            TIMESTAMP: stamp,
            NONCE: nonce,
            SIGNATURE: self._signer.sign(signed_text(path, stamp, nonce, body)),
        }
        extensions = {"sni_hostname": urlsplit(control.url).hostname}
        try:
            async with (
                httpx2.AsyncClient(timeout=ORDER_SECONDS, trust_env=False, follow_redirects=False) as http,
                http.stream("POST", url + path, content=body, headers=headers, extensions=extensions) as answer,
            ):
                said = b""
                async for part in answer.aiter_bytes():
                    said += part
                    if len(said) > ORDER_BYTES_MAX:
                        raise ControlRefused(agent_id=control.agent_id, problem="its answer is too long")
                status = answer.status_code
        except httpx2.HTTPError as problem:
            said_so = str(problem) or type(problem).__name__
            raise ControlUnreachable(agent_id=control.agent_id, url=control.url, problem=said_so) from problem
        if 300 <= status < 400:
            raise ControlRefused(agent_id=control.agent_id, problem="it points elsewhere, and that is not followed")
        if status != 200:
            raise ControlUnreachable(agent_id=control.agent_id, url=control.url, problem=f"it answered {status}")
        try:
            return msgspec.json.decode(said, type=OrderAnswer)
        except msgspec.MsgspecError as problem:
            raise ControlUnreachable(agent_id=control.agent_id, url=control.url, problem=str(problem)) from problem

    async def _address(self, control: Control) -> tuple[str, str]:
        """The very address that was looked at, so that a name cannot mean another one a moment later."""
        parts = urlsplit(control.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as problem:
            raise ControlUnreachable(agent_id=control.agent_id, url=control.url, problem=str(problem)) from problem
        addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
        if not control.private and not all(address.is_global for address in addresses):
            problem = f"{host} is an address of a private network, which nobody allowed"
            raise ControlRefused(agent_id=control.agent_id, problem=problem)
        first = addresses[0]
        place = f"[{first}]" if first.version == 6 else str(first)
        return urlunsplit((parts.scheme, f"{place}:{port}", "", "", "")), parts.netloc.rpartition("@")[2]
