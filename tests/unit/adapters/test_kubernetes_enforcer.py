"""Deployments are scaled on the condition of what was seen, on a fake that is held to the real client's models."""

import inspect
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from kubernetes import client as k8s

from homeostat.adapters.enforcers.cluster import RESTARTED, Cluster
from homeostat.adapters.enforcers.kubernetes import KubernetesEnforcer
from homeostat.adapters.remedies.container import ContainerRemedies
from homeostat.adapters.stores.sqlite import SqliteEnforcement, SqliteEngine
from homeostat.core.enforcement_errors import ContainerUnknown, EngineDenied, EngineUnreachable
from homeostat.core.ids import AgentId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Effect
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.immune.enforcement import Enforcement
from homeostat.testing.clock import ManualClock
from homeostat.testing.cluster import Deployment, FakeCluster
from homeostat.testing.holding import ANN, Alerts, Frugal, patient

# What the real client says of each kind of request: its method, and the model of what comes and goes.
CONTRACT = {
    ("GET", "deployments"): (k8s.AppsV1Api, "_list_namespaced_deployment_serialize", None, "V1DeploymentList"),
    ("GET", "deployment"): (k8s.AppsV1Api, "_read_namespaced_deployment_serialize", None, "V1Deployment"),
    ("PATCH", "deployment"): (k8s.AppsV1Api, "_patch_namespaced_deployment_serialize", None, "V1Deployment"),
    ("GET", "scale"): (k8s.AppsV1Api, "_read_namespaced_deployment_scale_serialize", None, "V1Scale"),
    ("PUT", "scale"): (k8s.AppsV1Api, "_replace_namespaced_deployment_scale_serialize", "V1Scale", "V1Scale"),
    ("GET", "configmaps"): (k8s.CoreV1Api, "_list_namespaced_config_map_serialize", None, "V1ConfigMapList"),
    ("PATCH", "configmap"): (k8s.CoreV1Api, "_patch_namespaced_config_map_serialize", None, "V1ConfigMap"),
}


def as_model(body: dict[str, Any], model: str) -> dict[str, Any]:
    """A body as the real client reads it and would write it again; what it does not know is lost on the way."""
    return getattr(k8s, model).from_dict(body).model_dump(by_alias=True, exclude_none=True)


def hold_to_contract(request: httpx2.Request, body: dict[str, Any], answer: httpx2.Response) -> None:
    parts = request.url.path.split("/")
    kind = parts[-1] if parts[-1] in {"deployments", "configmaps", "scale"} else parts[-2].removesuffix("s")
    api, name, sends, gives = CONTRACT[request.method, kind]
    source = inspect.getsource(getattr(api, name))
    (template,) = re.findall(r"resource_path='(/api[^']*)'", source)
    assert re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), request.url.path)
    assert f"method='{request.method}'" in source
    if sends is not None:
        assert as_model(body, sends) == body
    if answer.status_code == 200:
        assert as_model(answer.json(), gives) == answer.json()
    else:
        assert as_model(answer.json(), "V1Status") == answer.json()


class Place:
    """A cluster with one agent of three replicas, and an enforcement over it."""

    def __init__(self, store: SqliteEnforcement) -> None:
        self.fake = FakeCluster(
            Deployment("researcher", "ann", 3, 3), Deployment("other", "bob", 2, 2), config={"ann": {"MODE": "bold"}}
        )
        self.fake.seen = hold_to_contract
        self.cluster = Cluster("http://cluster", namespace="agents", transport=self.fake)
        self.enforcer = KubernetesEnforcer(self.cluster)
        self.store = store
        self.told = Alerts()
        self.enforcement = Enforcement(
            store=store, enforcers=[self.enforcer], spending=Frugal(), clock=ManualClock(), tell=self.told
        )

    @property
    def counts(self) -> dict[str, int]:
        return {one.name: one.replicas for one in self.fake.deployments.values()}

    async def effect(self) -> Effect:
        (hold,) = await self.store.holds_of(ANN)
        return hold.effect


@pytest.fixture
async def place() -> AsyncGenerator[Place]:
    engine = SqliteEngine(None)
    await engine.open()
    made = Place(SqliteEnforcement(engine))
    yield made
    await made.cluster.close()
    await engine.close()


async def test_a_deployment_is_scaled_to_nothing_and_back_to_what_it_was(place: Place) -> None:
    await place.enforcement.bring(patient(Phase.QUARANTINED))
    assert place.counts == {"researcher": 0, "other": 2}
    assert await place.effect() is Effect.ENFORCED
    await place.enforcement.bring(patient(Phase.HEALING))
    assert place.counts["researcher"] == 0, "it is treated by its description"
    await place.enforcement.bring(patient(Phase.PROBATION))
    assert place.counts == {"researcher": 3, "other": 2}
    assert await place.effect() is Effect.ENFORCED


async def test_a_deployment_that_is_changed_under_us_is_seen_anew(place: Place) -> None:
    def somebody_scales() -> None:
        place.fake.before_write = lambda: None
        one = place.fake.deployments["researcher"]
        one.replicas, one.version = 5, one.version + 1

    place.fake.before_write = somebody_scales
    await place.enforcement.bring(patient(Phase.QUARANTINED))
    assert place.counts["researcher"] == 0
    await place.enforcement.bring(patient(Phase.PROBATION))
    assert place.counts["researcher"] == 5, "back to what it was in the end"


async def test_one_that_is_at_nothing_already_keeps_its_count_when_another_is_seen_anew(place: Place) -> None:
    place.fake.deployments["writer"] = Deployment("writer", "ann", 2, 2)

    def somebody_scales() -> None:
        one = place.fake.deployments["writer"]
        if place.counts["researcher"] == 0 and one.version == 1:
            one.replicas, one.version = 6, one.version + 1

    place.fake.before_write = somebody_scales
    await place.enforcement.bring(patient(Phase.QUARANTINED))
    assert place.counts == {"researcher": 0, "writer": 0, "other": 2}
    await place.enforcement.bring(patient(Phase.PROBATION))
    assert place.counts == {"researcher": 3, "writer": 6, "other": 2}


async def test_whoever_scales_it_up_meanwhile_is_undone_and_the_window_is_told(place: Place) -> None:
    await place.enforcement.bring(patient(Phase.QUARANTINED))
    one = place.fake.deployments["researcher"]
    one.replicas, one.running, one.version = 4, 4, one.version + 1
    await place.enforcement.reconcile([patient(Phase.QUARANTINED)])
    (hold,) = await place.store.holds_of(ANN)
    assert (hold.effect, hold.gaps_count, place.counts["researcher"]) == (Effect.ENFORCED, 1, 0)
    assert json.loads(hold.before) == {"researcher": 4}


async def test_replicas_that_have_not_ended_are_not_claimed_to_have(place: Place) -> None:
    place.fake.slow_to_end = True
    await place.enforcement.bring(patient(Phase.QUARANTINED))
    assert await place.effect() is Effect.UNVERIFIED
    assert "3 replicas have not ended" in str(place.told.heard[0]["problem"])
    place.fake.deployments["researcher"].running = 0
    await place.enforcement.reconcile([patient(Phase.QUARANTINED)])
    assert await place.effect() is Effect.ENFORCED


async def test_what_is_denied_or_away_is_said(place: Place) -> None:
    place.fake.denied = {"PUT"}
    await place.enforcement.bring(patient(Phase.QUARANTINED))
    assert await place.effect() is Effect.FAILED
    assert "does not allow scale" in str(place.told.heard[0]["problem"])
    assert place.counts["researcher"] == 3
    place.fake.away = True
    await place.enforcement.reconcile([patient(Phase.QUARANTINED)])
    assert await place.effect() is Effect.UNVERIFIED
    with pytest.raises(EngineUnreachable):
        await place.enforcer.held(ANN, "")
    place.fake.away = False
    place.fake.denied = {"GET"}
    with pytest.raises(EngineDenied):
        await place.enforcer.held(ANN, "")


async def test_whoever_cannot_be_asked_about_is_not_claimed_to_be_held(place: Place) -> None:
    place.fake.denied = {"GET"}
    await place.enforcement.bring(patient(Phase.QUARANTINED))
    assert await place.effect() is Effect.UNVERIFIED
    assert "does not allow list" in str(place.told.heard[0]["problem"])
    with pytest.raises(EngineDenied):
        await place.cluster.ping()
    place.fake.denied = set()
    await place.cluster.ping()
    await place.enforcement.reconcile([patient(Phase.QUARANTINED)])
    assert (await place.effect(), place.counts["researcher"]) == (Effect.ENFORCED, 0)
    await place.enforcement.bring(patient(Phase.PROBATION))
    assert place.counts["researcher"] == 3, "what it was, seen when it could be"


async def test_a_deployment_that_goes_on_changing_under_us_has_not_been_scaled(place: Place) -> None:
    def somebody_scales() -> None:
        one = place.fake.deployments["researcher"]
        one.replicas, one.version = one.replicas + 1, one.version + 1

    place.fake.before_write = somebody_scales
    await place.enforcement.bring(patient(Phase.QUARANTINED))
    assert await place.effect() is Effect.FAILED
    assert "was changed by somebody else" in str(place.told.heard[0]["problem"])


async def test_whoever_is_said_to_be_a_deployment_and_is_none_is_not_held(place: Place) -> None:
    bert = (ANN[0], AgentId("bert"))
    place.enforcement.enforcers = (KubernetesEnforcer(place.cluster, expects=bert.__eq__),)
    await place.enforcement.bring(patient(Phase.QUARANTINED, bert))
    (hold,) = await place.store.holds_of(bert)
    assert (hold.effect, "No deployment belongs to" in hold.note) == (Effect.UNVERIFIED, True)
    assert len(place.told.heard) == 1


async def test_a_deployment_that_was_killed_is_scaled_back_when_it_is_released(place: Place) -> None:
    await place.enforcement.bring(patient(Phase.QUARANTINED, killed=True))
    assert place.counts["researcher"] == 0
    place.fake.denied = {"PUT"}
    await place.enforcement.bring(patient(Phase.PROBATION))
    (hold,) = await place.store.holds_of(ANN)
    assert (hold.effect, "is at 0 replicas and had 3" in hold.note) == (Effect.FAILED, True)
    place.fake.denied = set()
    await place.enforcement.reconcile([patient(Phase.PROBATION)])
    assert (place.counts["researcher"], await place.effect()) == (3, Effect.ENFORCED)


async def test_a_deployment_that_is_gone_is_not_held(place: Place) -> None:
    await place.enforcement.bring(patient(Phase.QUARANTINED))
    del place.fake.deployments["researcher"]
    await place.enforcement.reconcile([patient(Phase.QUARANTINED)])
    assert await place.effect() is Effect.UNVERIFIED
    with pytest.raises(ContainerUnknown):
        await place.enforcer.held(ANN, "")
    assert not await place.enforcer.reaches((ANN[0], AgentId("not a label"))), "a name that no label can have"


async def test_remedies_configure_and_restart_and_take_it_back(place: Place) -> None:
    remedies = ContainerRemedies(engine=None, cluster=place.cluster, clock=ManualClock())
    applied, note = await remedies.apply(ANN, RemedyAction.REDUCE_AUTONOMY, "it loops")
    assert applied is Applied.APPLIED, note
    assert place.fake.config == {"ann": {"MODE": "bold", "HOMEOSTAT_AUTONOMY": "reduced"}}
    assert RESTARTED in place.fake.deployments["researcher"].annotations
    assert not place.fake.deployments["other"].annotations
    await remedies.undo(ANN)
    assert place.fake.config == {"ann": {"MODE": "bold"}}
    assert (await remedies.apply(ANN, RemedyAction.RESET_AGENT, ""))[0] is Applied.APPLIED
    assert (await remedies.apply(ANN, RemedyAction.ROLLBACK_PROMPT, ""))[0] is Applied.NOT_APPLICABLE
    place.fake.denied = {"PATCH"}
    applied, note = await remedies.apply(ANN, RemedyAction.RESET_AGENT, "")
    assert (applied, "does not allow" in note) == (Applied.FAILED, True)


def test_the_role_allows_what_is_asked_and_nothing_else() -> None:
    role = (Path(__file__).parents[3] / "deploy/kubernetes/role.yaml").read_text()
    assert "deployments/scale" in role
    assert '"*"' not in role
    assert "ClusterRole" not in role
    assert "secrets" not in role
    assert "delete" not in role
