"""Addresses that others name, of something that is called over HTTP."""

from urllib.parse import SplitResult, urlsplit

from homeostat.core.errors import InvalidRequest

SHOWN_CHARS = 200


def check_ports(url: str) -> None:
    """Raises `ValueError` where a port of a URL is none; there may be several hosts in it."""
    for host in urlsplit(url).netloc.rpartition("@")[2].split(","):
        try:
            _ = urlsplit(f"//{host}").port
        except ValueError as problem:
            raise ValueError(f"the port of {host[:SHOWN_CHARS]} must be a number up to 65535") from problem


def web_address(url: str) -> SplitResult:
    """The parts of an address. One that nobody could ever call is refused, before it is kept anywhere."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError as problem:
        raise InvalidRequest(problem=f"{url[:SHOWN_CHARS]} is no address: {problem}") from problem
    if parts.scheme not in ("http", "https") or not named:
        raise InvalidRequest(problem=f"{url[:SHOWN_CHARS]} is no address: say http(s)://HOST[:PORT]")
    return parts
