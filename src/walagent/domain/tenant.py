"""Tenants, and who acts in them."""

from dataclasses import dataclass
from typing import Final

DEFAULT_TENANT: Final = "default"  # of everybody, until there is another one


@dataclass(frozen=True, slots=True)
class Actor:
    """As whom code of others acts: an agent, or who asks a question."""

    tenant: str
    principal: str
    scopes: tuple[str, ...] = ()  # of its token; none: all
