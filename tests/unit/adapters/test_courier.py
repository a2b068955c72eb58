"""An alert leaves the house: an address that stands for one inside is none outside."""

import ipaddress

import pytest

from homeostat.adapters.couriers.http import HttpCourier, is_outside


@pytest.mark.parametrize(
    "inside",
    [
        "127.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "239.1.1.1",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:100.64.0.1]",
        "[::ffff:239.1.1.1]",
        "[::10.0.0.1]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::10.0.0.1]",
        "[2002:7f00:1::]",
        "[fec0::1]",
        "[ff02::1]",
    ],
)
async def test_an_address_inside_the_house_is_not_called(inside: str) -> None:
    courier = HttpCourier()
    posted = await courier.post(f"http://{inside}/x", b"{}", {}, allow_private=False)
    await courier.close()
    assert posted.status is None
    assert "an address of your own network" in posted.problem


@pytest.mark.parametrize("outside", ["93.184.215.14", "2606:2800:21f::1", "64:ff9b::93.184.215.14", "2002:5db8:d70e::"])
def test_an_address_outside_is(outside: str) -> None:
    assert is_outside(ipaddress.ip_address(outside))
