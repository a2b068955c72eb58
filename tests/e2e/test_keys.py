"""A server that asks for keys, driven by its commands."""

import os
import re
import subprocess
import sys

import httpx2

from homeostat.testing.homeostat import HomeostatServer


def homeostat(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "homeostat", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_the_first_key_is_shown_once_and_makes_the_others() -> None:
    with HomeostatServer("--auth", "keys") as server:
        found = re.search(r"export HOMEOSTAT_KEY=(hk_[0-9a-f]{48})", server.log)
        assert found is not None, server.log
        admin = {"HOMEOSTAT_URL": server.url, "HOMEOSTAT_KEY": found[1]}
        assert "unauthenticated" in httpx2.get(f"{server.url}/v1/agents", trust_env=False).text
        made = homeostat("key", "create", "night shift", "--role", "operator", "--expires-days", "30", **admin)
        assert made.returncode == 0, made.stderr
        operator = admin | {"HOMEOSTAT_KEY": made.stdout.strip()}
        assert homeostat("get", "agents", **operator).returncode == 0
        refused = homeostat("key", "list", **operator)
        assert refused.returncode == 1
        assert "may not" in refused.stderr
        listed = homeostat("key", "list", **admin)
        assert "night shift" in listed.stdout
        key_id = re.search(r"(key_[0-9a-f]{24})  night shift", listed.stdout)
        assert key_id is not None
        rotated = homeostat("key", "rotate", key_id[1], "--overlap-seconds", "0", **admin)
        assert homeostat("get", "agents", **operator).returncode == 1
        operator["HOMEOSTAT_KEY"] = rotated.stdout.strip()
        assert homeostat("get", "agents", **operator).returncode == 0
        ended = homeostat("key", "revoke", key_id[1], "--reason", "the shift is over", **admin)
        assert "opens nothing" in ended.stdout
        assert homeostat("get", "agents", **operator).returncode == 1
        server.restart()
        again = server.log[server.log.rindex("is up at") :]
        assert "hk_" not in again, "a key is shown once"
        assert homeostat("get", "agents", **admin).returncode == 0


def test_a_stranger_is_refused_before_anything_listens() -> None:
    refused = homeostat("up", "--host", "0.0.0.0", "--ephemeral")  # noqa: S104 - it is refused
    assert refused.returncode == 2
    assert "--auth keys" in refused.stderr
