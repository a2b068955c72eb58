"""An Idempotency-Key is offered where the first answer is kept, and nowhere else."""

import pytest

from homeostat.server.application import table_of
from homeostat.server.endpoints import Endpoint
from homeostat.server.openapi import describe
from homeostat.server.repeats import KEPT_WITH_THE_WORK, NEED_NO_KEY

MUTATIONS = [one for one in table_of() if one.method != "GET"]


@pytest.mark.parametrize("endpoint", MUTATIONS, ids=lambda one: one.name)
def test_a_key_is_offered_where_the_first_answer_is_kept(endpoint: Endpoint) -> None:
    operation = describe([endpoint])["paths"][endpoint.path][endpoint.method.lower()]
    offered = any(parameter["name"] == "Idempotency-Key" for parameter in operation["parameters"])
    assert offered == (endpoint.method == "POST" and endpoint.name not in NEED_NO_KEY)
    assert ("idempotency_key_reused" in str(operation["responses"].get("422"))) == offered


def test_no_route_is_named_twice() -> None:
    assert not KEPT_WITH_THE_WORK & NEED_NO_KEY
    assert {one.name for one in MUTATIONS if one.method == "POST"} >= KEPT_WITH_THE_WORK | NEED_NO_KEY
