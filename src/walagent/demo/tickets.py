"""Read the demo's data from the files beside this module."""

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
    customer_id: int  # its position in CUSTOMERS, from 1
    subject: str
    body: str

    @property
    def text(self) -> str:
        """Return all text, as a model reads it."""
        return f"{self.subject}\n{self.body}"


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected decision on a ticket, and the uses of the ticket; see labels.yaml."""

    category: str
    tool: str
    use: Literal["example", "open", "apart"]


@cache
def tickets() -> tuple[Ticket, ...]:
    """Return all tickets in the order in which they are written."""
    return tuple(Ticket(**raw) for raw in _read("tickets.yaml"))


@cache
def expected() -> Mapping[int, Expected]:
    """Return the labels by ticket: for evaluation afterwards; the agent never sees them."""
    return {number: Expected(**raw) for number, raw in _read("labels.yaml").items()}


def ticket_at(number: int) -> Ticket:
    """Return the ticket with this *number*, from 1; after the last, they repeat."""
    return tickets()[(number - 1) % len(tickets())]


def definition() -> dict[str, Json]:
    """Return the agent's definition: arguments of agent.attach(), and model parameters."""
    return _read("agents.yaml")


def schema() -> bytes:
    """Return the SQL that creates the support desk in an empty database."""
    return _file("schema.sql").read_bytes()


def story() -> bytes:
    """Return the SQL that creates the views of each ticket's outcome."""
    return _file("story.sql").read_bytes()


def _read(name: str) -> Json:
    return yaml.safe_load(_file(name).read_bytes())


def _file(name: str) -> Traversable:
    return files("walagent.demo").joinpath(name)
