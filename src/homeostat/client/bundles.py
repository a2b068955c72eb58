"""Fetching a run's bundle: block by block into a file, which is there whole or not at all."""

from pathlib import Path

import httpx2

from homeostat.client.client import Client, path_part
from homeostat.client.transport import error_of
from homeostat.core.errors import InvalidRequest, ServerUnreachable

SILENCE_SECONDS_MAX = 120.0  # a long ledger is read through before its first line comes


async def download(client: Client, run_id: str, path: Path) -> int:
    """Write a run's bundle to a file; returns its size."""
    size = 0
    partial = path.with_name(f".{path.name}.part")
    headers = {"x-homeostat-project": client.project} if client.project else {}
    timeout = httpx2.Timeout(SILENCE_SECONDS_MAX)
    try:
        async with client.transport.http.stream(
            "GET", f"/v1/runs/{path_part(run_id)}/export", headers=headers, timeout=timeout
        ) as response:
            if response.status_code >= 400:
                raise error_of(response.status_code, await response.aread())
            with partial.open("wb") as file:
                async for block in response.aiter_raw():
                    size += file.write(block)
        partial.replace(path)
    except httpx2.TransportError as problem:
        raise ServerUnreachable(url=client.url, problem=str(problem) or type(problem).__name__) from problem
    except OSError as problem:
        raise InvalidRequest(problem=f"{path} cannot be written: {problem.strerror}") from problem
    finally:
        partial.unlink(missing_ok=True)
    return size
