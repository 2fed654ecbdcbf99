"""What built-in tools use beside the database, and those that act outside it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import orjson

from walagent.domain.tool_spec import Tool
from walagent.errors import ToolFailedError
from walagent.message import Json
from walagent.models.provider import Embedder, Embedding
from walagent.tools.builtin_results import data_block, text_block
from walagent.tools.callee import Callee
from walagent.tools.files import Files
from walagent.tools.python import ToolContext
from walagent.tools.thread_functions import ThreadFunction

# The argument whose embedding is sent along.
_EMBEDDED: Final = {"remember": "value", "recall": "query", "retrieve": "query"}
OUTSIDE: Final = frozenset({"embed", "read_file", "web_search", "write_file"})

TenantOf = Callable[[int], Awaitable[str]]  # of a run


class Finding(Protocol):
    """One result of a web search."""

    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def url(self) -> str: ...  # noqa: D102
    @property
    def excerpt(self) -> str: ...  # noqa: D102


Search = Callable[[str], Awaitable[Sequence[Finding]]]


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
    """What tools and turns of this process can use; None: not configured."""

    embedder: NamedEmbedder | None = None
    search: Search | None = None
    files: Files | None = None
    functions: Mapping[str, ThreadFunction] = field(default_factory=dict[str, ThreadFunction])

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

    def callee(self, tool: Tool, tenant_of: TenantOf) -> Callee:
        """Return what carries out a built-in tool that acts outside the database.

        Raises:
            ToolFailedError: this process is not configured for it.
        """
        match tool.target:
            case "web_search" if self.search is not None:
                return _Callee(_searching(self.search))
            case "embed" if self.embedder is not None:
                return _Callee(_embedding(self.embedder))
            case "read_file" if self.files is not None:
                return _Callee(_reading(self.files, tenant_of))
            case "write_file" if self.files is not None:
                return _Callee(_writing(self.files, tenant_of))
            case _:
                key = _KEYS.get(tool.target, tool.target)
                raise ToolFailedError(f"{tool.name} is not configured on this worker ({key})")


_KEYS: Final = {
    "web_search": "ask.search",
    "embed": "retrieval.vectors",
    "read_file": "files.root",
    "write_file": "files.root",
}
Act = Callable[[ToolContext, Mapping[str, Json]], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class _Callee:
    """Implements `Callee`."""

    act: Act

    async def prepare(self) -> None:
        """Do nothing: there is no connection to open."""

    async def call(self, context: ToolContext, arguments: Mapping[str, Json]) -> object:
        """Act, and give the answer; see `Callee`."""
        return await self.act(context, arguments)


def _searching(search: Search) -> Act:
    async def act(context: ToolContext, arguments: Mapping[str, Json]) -> str:
        found = [
            {"title": each.title, "url": each.url, "excerpt": each.excerpt}
            for each in await search(str(arguments["query"]))
        ]
        return data_block("web", found, context.run_id) if found else "nothing was found on the web"

    return act


def _embedding(embedder: NamedEmbedder) -> Act:
    async def act(_context: ToolContext, arguments: Mapping[str, Json]) -> str:
        (found,) = await embedder.embed([str(arguments["text"])])
        vector = [round(value, 6) for value in found.vector]
        return orjson.dumps({"model": embedder.name, "embedding": vector}).decode()

    return act


def _reading(files: Files, tenant_of: TenantOf) -> Act:
    async def act(context: ToolContext, arguments: Mapping[str, Json]) -> str:
        path, tenant = str(arguments["path"]), await tenant_of(context.run_id)
        text = await asyncio.to_thread(files.read, tenant, path)
        return text_block("file", text, context.run_id)

    return act


def _writing(files: Files, tenant_of: TenantOf) -> Act:
    async def act(context: ToolContext, arguments: Mapping[str, Json]) -> str:
        path, text = str(arguments["path"]), str(arguments["text"])
        tenant = await tenant_of(context.run_id)
        return f"wrote {await asyncio.to_thread(files.write, tenant, path, text)} bytes"

    return act
