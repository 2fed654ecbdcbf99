"""What walagent knows about a provider of models.

A provider is a folder that exports one `Provider`, and an entry in the registry: a line there, or
in another package the entry point `walagent.models`.  Nothing else depends on a provider's name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from walagent.message import ModelSpec
from walagent.models.credentials import Api, Secrets
from walagent.models.model import Model

if TYPE_CHECKING:
    from walagent.models.wire_format import WireFormat

Build = Callable[[ModelSpec, Secrets], Model]
"""Makes a model of its row, connects to nothing, and raises what `build_model` raises."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """A text's vector, and what it cost."""

    vector: tuple[float, ...]
    tokens: int  # as the model counts them
    cached: bool  # known from before: nothing was computed


class Embedder(Protocol):
    """Gives each text a vector of length one."""

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed *texts*, in their order.

        Raises:
            PreconditionError: the model is not installed or cannot run on this machine.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider of models.  Each function imports what it needs when it is called.

    Args:
        name: as rows of `agent.model` and agents.yaml write it.
        load: gives the function that builds a model.
        api: where its models are reached and with which key; None without a network.
        default_model: a registered model, used where only the provider is named.
        can_plan: whether its models can answer questions.
        note: what people should know about its replies.
        extra: what `pip install` needs, where walagent alone is not enough.
        load_embedder: gives what embeds texts; None if it cannot.
        load_wire: gives its wire format, as the fake provider speaks it.
    """

    name: str
    load: Callable[[], Build]
    api: Api | None = None
    default_model: str = ""
    can_plan: bool = True
    note: str = ""
    extra: str = ""
    load_embedder: Callable[[], Embedder] | None = None
    load_wire: "Callable[[], WireFormat] | None" = None
