"""What `deploy/` starts works together: its own commands, in its own environment, on real engines."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import yaml
from kubernetes.client import ApiClient

from homeostat.testing.servers import Server

ROOT: Final = Path(__file__).parents[2]
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
KUBERNETES: Final = ROOT / "deploy/kubernetes"
MODELS: Final = {"Deployment": "V1Deployment", "StatefulSet": "V1StatefulSet", "Service": "V1Service"} | {
    kind: f"V1{kind}" for kind in ("ServiceAccount", "Role", "RoleBinding")
}


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(KUBERNETES.glob("*.yaml")):
        for one in yaml.safe_load_all(path.read_text()):
            yield f"{path.name} {one['kind']} {one.get('metadata', {}).get('name')}", one


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for title, one in manifests():
        if one["kind"] in ("Deployment", "StatefulSet"):
            yield title, one["spec"]["template"]["spec"]


class Answer:
    """What the client's reader takes for an answer."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.data = yaml.safe_dump(body)


def test_every_field_of_a_manifest_is_one_that_kubernetes_knows() -> None:
    """Read by the client's models and written again, nothing is lost: a misspelled field would be."""
    client = ApiClient()
    for title, one in manifests():
        if one["kind"] == "Kustomization":
            assert all((KUBERNETES / name).exists() for name in one["resources"])
            continue
        kind = getattr(__import__("kubernetes").client, MODELS[one["kind"]])
        again = client.sanitize_for_serialization(client._ApiClient__deserialize(one, kind))  # pyright: ignore[reportAttributeAccessIssue]
        assert again == one, title


def test_pods_take_no_settings_from_services_and_claim_what_they_mount() -> None:
    for title, pod in pods():
        (container,) = pod["containers"]
        if container["image"] == "homeostat":
            assert pod["enableServiceLinks"] is False, f"{title}: HOMEOSTAT_PORT would be the Service's"
            assert pod["securityContext"]["runAsNonRoot"], title
            assert container["securityContext"]["readOnlyRootFilesystem"], title
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, title
            assert ("serviceAccountName" in pod) == (container["name"] in ("server", "immune")), title
            assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}, title
    parts = {pod["containers"][0]["name"] for _, pod in pods()}
    assert parts == {"server", "gateway", "immune", "worker", "postgres", "nats", "redis"}


def test_the_image_leaves_out_what_is_not_built_from() -> None:
    ignored = (ROOT / "deploy/Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    for name in (line[1:] for line in ignored if line.startswith("!")):
        assert (ROOT / name).exists(), name
    made = (ROOT / "deploy/Dockerfile").read_text()
    assert re.search(r"^USER 10001$", made, re.MULTILINE)


def filled(text: str) -> str:
    """A value of the file, where nobody set anything."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


class Part(Server):
    """A service of the file as a process: its command and its environment, with its engines' real addresses."""

    ready_words = "Press Ctrl-C to stop"

    def __init__(self, name: str, engines: dict[str, str], folder: Path, **given: str) -> None:
        super().__init__()
        self.title = name
        service = COMPOSE["services"][name]
        self._arguments = [filled(word) for word in service["command"]]
        if "--port" in self._arguments:
            self._arguments[self._arguments.index("--port") + 1] = str(self.port)
        settings = {variable: filled(value) for variable, value in service["environment"].items()}
        for variable, url in engines.items():
            if variable in settings:
                assert settings[variable].partition(":")[0] == url.partition(":")[0], variable
                settings[variable] = url
        if "HOMEOSTAT_HOST" in settings:
            settings["HOMEOSTAT_HOST"] = "127.0.0.1"  # nobody else is to reach a test
        self._settings = {**settings, "HOMEOSTAT_DATA_DIR": str(folder / name), **given}
        self._folder = folder

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        said = [f"{name}={value}" for name, value in self._settings.items()]
        program = [sys.executable, "-m", "homeostat", *self._arguments]
        return ["env", f"--chdir={self._folder}", *said, *program]


def test_the_services_of_the_file_work_together(
    postgres_url: str, redis_url: str, nats_url: str, tmp_path: Path
) -> None:
    """A message is answered by the worker, a model call by the gateway, and the fleet is watched beside the server."""
    engines = {"HOMEOSTAT_STORE_URL": postgres_url, "HOMEOSTAT_BUS_URL": nats_url, "HOMEOSTAT_STATUS_URL": redis_url}
    mounts = [volume.split(":") for volume in COMPOSE["services"]["worker"]["volumes"]]
    for source, target, _ in mounts:
        shutil.copytree(ROOT / "deploy" / source, tmp_path / Path(target).relative_to("/agents"))
    with ExitStack() as stack:
        immune = stack.enter_context(Part("immune", engines, tmp_path))
        assert "immune system decides" in immune.log
        server = stack.enter_context(Part("server", engines, tmp_path))
        found = re.search(r"export HOMEOSTAT_KEY=(hk_\w+)", server.log)
        assert found is not None, "the first key is in the log"
        stack.enter_context(gateway := Part("gateway", engines, tmp_path))
        worker = Part("worker", {}, tmp_path, HOMEOSTAT_URL=server.url, HOMEOSTAT_KEY=found[1])
        worker.ready_words = "hosts hello"
        stack.enter_context(worker)
        with httpx2.Client(base_url=server.url, headers={"authorization": f"Bearer {found[1]}"}, timeout=60) as http:
            assert httpx2.get(f"{server.url}/v1/agents").status_code == 401, "everybody is asked for a key"
            # As inside of Compose's network, where the server has another name.
            sent = http.post("/v1/agents/hello/inbox", json={"type": "turn", "payload": {"name": "Ada"}})
            assert sent.status_code == 202, sent.text
            done = http.get(f"/v1/turns/{sent.json()['turn_id']}/deliverable", params={"wait": 50})
            assert done.json()["result"] == {"greeting": "Hello, Ada!"}
            key = http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "ann"}).json()["api_key"]
            asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "How are you?"}]}
            said = {"authorization": f"Bearer {key}"}
            answered = httpx2.post(f"{gateway.url}/openai/v1/chat/completions", json=asked, headers=said, timeout=60)
            assert answered.status_code == 200, answered.text
            held = http.post("/v1/agents/ann/quarantine", json={"reason": "a drill"})
            assert held.status_code in (200, 202), held.text
            refused = httpx2.post(f"{gateway.url}/openai/v1/chat/completions", json=asked, headers=said, timeout=60)
            assert refused.status_code == 503, "what is decided at a server holds at every gateway"
            assert logged(http, "agent:ann outcome:answered") == 1
        for part in (server, gateway):
            assert httpx2.get(f"{part.url}/livez").status_code == httpx2.get(f"{part.url}/readyz").status_code == 200


def logged(http: httpx2.Client, wanted: str) -> int:
    """How many such calls are in the log, into which a gateway writes a moment after it answered."""
    until = time.monotonic() + 30
    while not (calls := http.get("/v1/calls", params={"q": wanted}).json()["calls"]) and time.monotonic() < until:
        time.sleep(0.1)
    return len(calls)


def blocks(language: str) -> list[str]:
    page = (ROOT / "docs/howto/scale-out.md").read_text()
    (found,) = re.findall(rf"```sh {language}\n(.*?)```", page, re.DOTALL)
    return found.splitlines()


def test_the_commands_of_the_page_name_what_there_is() -> None:
    """Neither engine is at hand in every place: what can be checked without one is."""
    for line in blocks("compose"):
        words = shlex.split(line.partition(" | ")[0])
        assert words[:4] == ["docker", "compose", "-f", "deploy/compose.yaml"]
        assert words[4] == "up" or words[5] in COMPOSE["services"]
    made: dict[str, set[str]] = {}
    for line in blocks("kubernetes"):
        words = shlex.split(line.partition(" | ")[0])
        if words[1] == "create":
            name = words[4] if words[2] == "secret" else words[3]
            given = [word.split("=", 1)[1] for word in words if word.startswith("--from-")]
            made[name] = {Path(one).name if words[2] == "configmap" else one.split("=")[0] for one in given}
            if words[2] == "configmap":
                assert all((ROOT / one).exists() for one in given)
    assert {"homeostat", "homeostat-worker", "homeostat-agents"} == set(made)
    for title, pod in pods():
        text = yaml.safe_dump(pod)
        for name in re.findall(r"secretRef:\n\s+name: (\S+)", text) + re.findall(r"configMap:\n\s+name: (\S+)", text):
            assert name in made, f"{title} wants {name}"
        for key in re.findall(r"key: (\S+)", text):
            assert key in made["homeostat"], f"{title} wants {key}"


def compose() -> list[str] | None:
    """Compose, as a plug-in of docker's or by itself."""
    for program in (["docker", "compose"], ["docker-compose"]):
        found = shutil.which(program[0])
        if found and not subprocess.run([*program, "version"], capture_output=True, check=False).returncode:
            return program
    return None


def test_the_compose_file_is_one_that_compose_reads() -> None:
    """Where Compose is installed it is asked; it needs no engine for that."""
    program = compose()
    if program is None:
        pytest.skip("there is no docker compose")
    asked = [*program, "-f", str(ROOT / "deploy/compose.yaml"), "config", "--quiet"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
