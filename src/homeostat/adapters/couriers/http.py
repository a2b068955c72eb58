"""Carries alerts over HTTP, to the address that was looked at and to no other."""

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx2

from homeostat.core.ports.webhook import Posted

ANSWER_SECONDS: Final = 15.0
PROBLEM_CHARS_MAX: Final = 200

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NETWORKS = ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
TRANSLATED: Final = tuple(map(ipaddress.IPv6Network, _NETWORKS))
"""Where the last four bytes are the IPv4 address that is really reached, by whatever translates them."""


class HttpCourier:
    """Looks a name up once and connects to what it found, so that a name cannot become another between the two.

    Addresses inside the house are refused unless they were meant; redirects are not followed.
    """

    def __init__(self) -> None:
        self._http = httpx2.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False, follow_redirects=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool) -> Posted:
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            port = parts.port or (443 if parts.scheme == "https" else 80)
            address = await _address(host, port)
            if not allow_private and not is_outside(address):
                return Posted(
                    None, f"{host} is {address}, an address of your own network; say allow_private if that is meant"
                )
            bracketed = f"[{address}]" if address.version == 6 else str(address)
            pinned = parts._replace(netloc=f"{bracketed}:{port}").geturl()
            sent = dict(headers) | {"host": parts.netloc.rpartition("@")[2]}
            answer = await self._http.post(pinned, content=body, headers=sent, extensions={"sni_hostname": host})
        except (httpx2.HTTPError, OSError, ValueError) as problem:
            return Posted(None, f"{type(problem).__name__}: {problem}"[:PROBLEM_CHARS_MAX])
        return Posted(answer.status_code)


def is_outside(address: Address) -> bool:
    """Whether an address is somebody else's, and where it stands for one of IPv4, that one as well."""
    if isinstance(address, ipaddress.IPv6Address):
        low = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        inner = low if any(address in network for network in TRANSLATED) else address.sixtofour
        if inner is not None and not is_outside(inner):
            return False
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast


async def _address(host: str, port: int) -> Address:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return ipaddress.ip_address(found[0][4][0])
