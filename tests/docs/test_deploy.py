"""What is in `deploy/` speaks of what there is: metrics that are counted, settings that exist, commands that run."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from homeostat.app.assemble import assemble
from homeostat.app.settings import SETTINGS, Settings
from homeostat.cli.application import application
from homeostat.server.metrics import Metrics
from homeostat.server.patience import Patience

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


async def counted() -> set[str]:
    async with assemble(Settings(ephemeral=True)) as system:
        metrics = Metrics(system, Patience())
        metrics.fleet.census = await system.fleet.census()
        found: set[str] = set()
        for family in metrics.registry.collect():
            if family.type == "counter":
                found.add(f"{family.name}_total")
            elif family.type == "histogram":
                found |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
            else:
                found.add(family.name)
        return found


async def test_dashboards_and_alerts_name_metrics_that_there_are() -> None:
    known = await counted()
    board: dict[str, Any] = json.loads(_read("grafana/homeostat.json"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    rules: dict[str, Any] = yaml.safe_load(_read("prometheus/alerts.yaml"))
    asked += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    named = {name for expression in asked for name in re.findall(r"homeostat_\w+", expression)}
    assert len(named) > 10
    assert named - known == set()
    for group in rules["groups"]:
        assert all(rule["annotations"]["runbook"] for rule in group["rules"])


def test_manifests_set_what_can_be_set_and_run_what_can_be_run() -> None:
    texts = [_read("compose.yaml"), _read("kubernetes/homeostat.yaml"), (ROOT / "docs/howto/scale-out.md").read_text()]
    variables = {setting.variable for setting in SETTINGS} | {"HOMEOSTAT_URL", "HOMEOSTAT_KEY", "HOMEOSTAT_AGENT"}
    for text in texts:
        assert set(re.findall(r"HOMEOSTAT_[A-Z_]+[A-Z]", text)) - variables == set()
    compose: dict[str, Any] = yaml.safe_load(texts[0])
    commands = {
        command.name or command.callback.__name__ for command in application.registered_commands if command.callback
    }
    for part in ("server", "gateway", "immune", "worker"):
        service = compose["services"][part]
        assert service["command"][0] in commands
        assert service["cap_drop"] == ["ALL"]
        ports: list[str] = service.get("ports", [])
        assert all(port.startswith("127.0.0.1:") for port in ports), "nothing is open to the network unasked"
    parts: list[dict[str, Any]] = list(yaml.safe_load_all(texts[1]))
    role = next(one for one in yaml.safe_load_all(_read("kubernetes/role.yaml")) if one["kind"] == "Role")
    allowed = {verb for rule in role["rules"] for verb in rule["verbs"]}
    assert allowed == {"get", "list", "patch", "update"}
    for deployment in (one for one in parts if one["kind"] == "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


def _read(name: str) -> str:
    return (DEPLOY / name).read_text()
