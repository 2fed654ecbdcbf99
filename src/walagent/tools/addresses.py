"""Which addresses a tool over HTTP may connect to.

A name is resolved once, each of its addresses is checked, and the connection goes to a checked
address: a second resolution could give another one (DNS rebinding).
"""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

from walagent.errors import ToolFailedError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# IPv6 addresses that have an IPv4 address in their last 32 bits (RFC 6052).
_TRANSLATED: Final = ip_network("64:ff9b::/96")
# Networks that some versions of `ipaddress` take for global ones, and the address at which Azure's
# machines reach their platform.
_SPECIAL: Final = (
    *(
        ip_network(each)
        for each in ("0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24")
    ),
    *(ip_network(each) for each in ("192.88.99.0/24", "198.18.0.0/15", "100::/64", "2001::/23")),
    # The first is for translation within a site, with the IPv4 address at a place it chooses.
    *(ip_network(each) for each in ("64:ff9b:1::/48", "3fff::/20", "5f00::/16")),
)


async def resolve(host: str, port: int, networks: Sequence[Network] = ()) -> Sequence[Address]:
    """Resolve a host to addresses to which a connection is allowed.

    Forms of an address that only `inet_aton` reads (decimal, octal, short) are resolved here, as
    everything else, and so are checked.

    Args:
        networks: private networks that the operator allows.

    Raises:
        ToolFailedError: it does not resolve, or one of its addresses is not allowed.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolFailedError(f'host "{host}" does not resolve') from error
    addresses = list(dict.fromkeys(_address(str(info[4][0])) for info in found))
    if not addresses or not all(is_allowed(address, networks) for address in addresses):
        raise ToolFailedError(
            f'host "{host}" has an address that is not public; an operator can allow its network'
        )
    return addresses


def is_allowed(address: Address, networks: Sequence[Network] = ()) -> bool:
    """Whether an address is public, or in one of *networks*; also the IPv4 address in it."""
    return all(_is_public(each) or in_networks(each, networks) for each in _inner(address))


def in_networks(address: Address, networks: Sequence[Network]) -> bool:
    """Whether an address, or what it stands for, is in one of *networks*."""
    return any(each in network for each in _inner(address) for network in networks)


def _address(text: str) -> Address:
    return ip_address(text.partition("%")[0])


def _inner(address: Address) -> tuple[Address, ...]:
    """Return what an address stands for: an IPv6 address can carry an IPv4 address."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    carried: list[Address] = [address]
    if address.sixtofour is not None:
        carried.append(address.sixtofour)
    if address.teredo is not None:
        carried.extend(address.teredo)
    if address in _TRANSLATED:
        carried[0] = IPv4Address(int(address) & 0xFFFF_FFFF)
    return tuple(carried)


def _is_public(address: Address) -> bool:
    site_local = isinstance(address, IPv6Address) and address.is_site_local
    return (
        address.is_global
        and not (address.is_multicast or address.is_reserved or address.is_unspecified)
        and not (address.is_private or address.is_loopback or address.is_link_local or site_local)
        and not any(
            address in network for network in _SPECIAL if network.version == address.version
        )
    )
