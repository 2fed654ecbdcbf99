"""What built-in tools use beside the database, and their calls outside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from walagent.agent.models.provider import Embedder, Embedding
from walagent.message import Json
from walagent.tool_spec import Tool

# The argument whose embedding is sent along.
_EMBEDDED: Final = {"remember": "value", "recall": "query", "retrieve": "query"}


@dataclass(frozen=True, slots=True)
class NamedEmbedder:
    """An embedder, and the name under which its embeddings are stored."""

    embedder: Embedder
    name: str

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed *texts*, in their order; see `Embedder`."""
        return await self.embedder.embed(texts) if texts else []


@dataclass(frozen=True, slots=True)
class Services:
    """What the built-in tools of this process can use; None: not configured."""

    embedder: NamedEmbedder | None = None

    async def with_embedding(self, tool: Tool, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Add the embedding of what is stored or searched for.

        Raises:
            PreconditionError: the embedder is not installed or cannot run on this machine.
        """
        text = arguments.get(_EMBEDDED.get(tool.target, ""))
        if self.embedder is None or not text:
            return dict(arguments)
        words = f"{arguments['key']}: {text}" if arguments.get("key") else str(text)
        (found,) = await self.embedder.embed([words])
        vector = list(found.vector)
        return {**arguments, "embedding": vector, "embedding_model": self.embedder.name}
