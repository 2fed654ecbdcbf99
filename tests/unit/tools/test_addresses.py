"""Where a tool over HTTP can connect to."""

from ipaddress import ip_address, ip_network

import pytest

from walagent.errors import ToolFailedError
from walagent.tools.addresses import in_networks, is_allowed, resolve

PRIVATE = [
    "0.0.0.0",  # noqa: S104 - it is refused
    "0.1.2.3",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.8.8.8",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.8",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:168.63.129.16",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "64:ff9b:1:7f00:0:100:808:808",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a83f:8110::",
    "2002:a9fe:a9fe::",
    "3fff::1",
    "3fff:fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "1.1.1.1",
    "93.184.216.34",
    "168.63.129.17",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    """Also one that carries a private IPv4 address."""
    assert not is_allowed(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address: str) -> None:
    """In each of its forms."""
    assert is_allowed(ip_address(address))


def test_an_operator_allows_a_network() -> None:
    """That one and no other; a mapped address is the address that it maps."""
    ten = [ip_network("10.1.0.0/16")]
    assert is_allowed(ip_address("10.1.2.3"), ten)
    assert is_allowed(ip_address("::ffff:10.1.2.3"), ten)
    assert not is_allowed(ip_address("10.2.0.1"), ten)
    assert not is_allowed(ip_address("127.0.0.1"), ten)
    assert in_networks(ip_address("10.1.2.3"), ten)
    assert not in_networks(ip_address("1.1.1.1"), ten)


def test_an_address_stands_for_all_that_it_carries() -> None:
    """One of them in an allowed network does not open the others."""
    ten = [ip_network("10.0.0.0/8")]
    relayed = ip_address("2001:0:a01:203:0:0:5601:5601")  # by 10.1.2.3 to 169.254.169.254
    assert in_networks(relayed, ten)
    assert not is_allowed(relayed, ten)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "0",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
    ],
)
async def test_each_way_to_write_this_machine_is_refused(host: str) -> None:
    """The resolver reads decimal, octal and short forms; what it returns is checked."""
    with pytest.raises(ToolFailedError, match=r"not public|does not resolve"):
        await resolve(host, 80)


async def test_a_name_that_does_not_resolve_is_an_error_of_the_call() -> None:
    """The model is told; nothing was sent."""
    for host in ("no-such-host.invalid", "a" * 70 + ".example", ""):
        with pytest.raises(ToolFailedError):
            await resolve(host, 80)


async def test_an_allowed_network_resolves() -> None:
    """To what is connected to."""
    found = await resolve("127.0.0.1", 80, [ip_network("127.0.0.0/8")])
    assert found == [ip_address("127.0.0.1")]
