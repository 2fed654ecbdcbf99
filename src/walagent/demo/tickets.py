"""What the demo plays: read from the files beside this one."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

import yaml

from walagent.message import Json

CUSTOMERS = (
    "Anneke de Vries",
    "Tomasz Lewandowski",
    "Priyanka Nair",
    "Bright & Sons Ltd",
    "Hélène Marchand",
    "Studio Kairo",
    "Lena Wirth",
    "Yuki Tanabe",
    "Nordlicht GmbH",
    "Marisol Ortega",
    "Okafor Logistics",
    "Jim Halloran",
)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A message to the support desk."""

    id: int
    customer_id: int  # its place in CUSTOMERS, from 1
    subject: str
    body: str

    @property
    def text(self) -> str:
        """All its words, as a model reads them."""
        return f"{self.subject}\n{self.body}"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a person would do about a ticket, and what it may be used for; see labels.yaml."""

    category: str
    tool: str
    use: Literal["example", "open", "apart"]


@cache
def tickets() -> tuple[Ticket, ...]:
    """All tickets, in the order in which they come in."""
    return tuple(Ticket(**raw) for raw in _read("tickets.yaml"))


@cache
def expected() -> Mapping[int, Expected]:
    """What is right, by ticket: to evaluate an agent afterwards, never to show it."""
    return {number: Expected(**raw) for number, raw in _read("labels.yaml").items()}


def ticket_at(number: int) -> Ticket:
    """Give the ticket that comes in as *number*, from 1; after the last the first comes again."""
    return tickets()[(number - 1) % len(tickets())]


def definition() -> dict[str, Json]:
    """The demo's agent: the arguments of agent.attach(), and `parameters` of the model."""
    return _read("agents.yaml")


def schema() -> bytes:
    """The SQL that makes the support desk in an empty database."""
    return _file("schema.sql").read_bytes()


def story() -> bytes:
    """The SQL that makes the views of what became of each ticket."""
    return _file("story.sql").read_bytes()


def _read(name: str) -> Json:
    return yaml.safe_load(_file(name).read_bytes())


def _file(name: str) -> Traversable:
    return files("walagent.demo").joinpath(name)
