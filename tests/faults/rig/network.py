"""Hosts with addresses of their own, and cables that can be pulled.

Each host is a network namespace.  Two switches join them, one on the side of the database, one on
the side of the model providers; PostgreSQL is on the first from the namespace of the test itself.
A cable is pulled at the switch: the host keeps its link and its routes, and what it sends is gone.
Nobody resets anything, so each side finds out by its own time-outs.
"""

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

Side = Literal["db", "llm"]

# Set aside for tests of networks (RFC 2544); the third number is of this network alone.
_PREFIXES: dict[Side, str] = {"db": "198.18", "llm": "198.19"}
_TOOLS = ("ip", "nsenter")


@dataclass(frozen=True, slots=True)
class Host:
    """A machine of its own, as far as the network is concerned."""

    name: str  # of its namespace
    addresses: dict[Side, str]

    @property
    def inside(self) -> Sequence[str]:
        """What runs a command there."""
        return ["nsenter", f"--net=/run/netns/{self.name}", "--"]


class Network:
    """The switches, the server's cable, and hosts as they are wanted."""

    def __init__(self) -> None:
        self._name = f"wa{os.getpid()}x{random.randrange(100)}"
        self._number = random.choice(_free_numbers())
        self._hosts: list[Host] = []

    @property
    def server(self) -> str:
        """The address at which this namespace, and the server in it, is reached."""
        return f"{_PREFIXES['db']}.{self._number}.1"

    @property
    def prefix(self) -> str:
        """The addresses of all who reach the server."""
        return f"{_PREFIXES['db']}.{self._number}.0/24"

    @property
    def _switch(self) -> str:
        return f"{self._name}-sw"

    def build(self) -> None:
        """Make switches and the server's cable."""
        _ip("netns", "add", self._switch)
        for side in _PREFIXES:
            _ip("-n", self._switch, "link", "add", side, "type", "bridge")
            _ip("-n", self._switch, "link", "set", side, "up")
        near, port = self._name, "server"
        _ip("link", "add", near, "type", "veth", "peer", "name", port, "netns", self._switch)
        _ip("addr", "add", f"{self.server}/24", "dev", near)
        _ip("link", "set", near, "up")
        self._plug(port, "db")

    def host(self, *sides: Side) -> Host:
        """Set a host up, with a cable to each of these sides."""
        number = len(self._hosts) + 2
        addresses: dict[Side, str] = {
            side: f"{_PREFIXES[side]}.{self._number}.{number}" for side in sides
        }
        made = Host(f"{self._name}-{number}", addresses)
        self._hosts.append(made)
        _ip("netns", "add", made.name)
        _ip("-n", made.name, "link", "set", "lo", "up")
        for side, address in addresses.items():
            cable = ("type", "veth", "peer", "name", self._port(made, side), "netns", self._switch)
            _ip("-n", made.name, "link", "add", side, *cable)
            _ip("-n", made.name, "addr", "add", f"{address}/24", "dev", side)
            _ip("-n", made.name, "link", "set", side, "up")
            self._plug(self._port(made, side), side)
        return made

    def pull(self, host: Host, *sides: Side) -> None:
        """Pull a host's cables."""
        for side in sides:
            _ip("-n", self._switch, "link", "set", self._port(host, side), "nomaster")

    def mend(self, host: Host, *sides: Side) -> None:
        """Put them back."""
        for side in sides:
            self._plug(self._port(host, side), side)

    def remove(self) -> None:
        """Leave nothing of it, however far it has come."""
        _ip("link", "del", self._name, check=False)
        for name in (self._switch, *(host.name for host in self._hosts)):
            _ip("netns", "del", name, check=False)

    def _plug(self, port: str, side: Side) -> None:
        _ip("-n", self._switch, "link", "set", port, "master", side, "up")

    def _port(self, host: Host, side: Side) -> str:
        return f"{host.name.rpartition('-')[2]}-{side}"


@contextmanager
def network() -> Iterator[Network]:
    """Have a network until the block ends; skip the test where none can be made."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces take root")
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"network namespaces take {', '.join(missing)} (iproute2, util-linux)")
    _sweep()
    made = Network()
    try:
        try:
            made.build()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
        yield made
    finally:
        made.remove()


def _sweep() -> None:
    """Remove what tests that were killed have left behind; their cables go with it."""
    shown = subprocess.run(["ip", "netns", "list"], check=False, capture_output=True, text=True)
    for name, pid in re.findall(r"^(wa(\d+)x\d+-\w+)", shown.stdout, re.MULTILINE):
        if not Path(f"/proc/{pid}").exists():
            _ip("netns", "del", name, check=False)


def _free_numbers() -> Sequence[int]:
    shown = subprocess.run(
        ["ip", "-4", "-o", "addr"], check=True, capture_output=True, text=True, timeout=10
    ).stdout
    return [n for n in range(1, 255) if f"{_PREFIXES['db']}.{n}." not in shown]


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, text=True, timeout=10)
