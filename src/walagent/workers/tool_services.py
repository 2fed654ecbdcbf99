"""What tools and turns of a process can use, as its configuration says."""

from walagent.config import Config
from walagent.config.environment import Environment
from walagent.models.registry import providers
from walagent.runs.tools.builtin_tools import NamedEmbedder, Search, Services
from walagent.tools.files import Files
from walagent.tools.thread_functions import find_thread_functions


def tool_services(config: Config, environment: Environment) -> Services:
    """Make the services of a process.

    Raises:
        ConfigError: the key of the web search is not set, or its library is not installed.
    """
    files = config.files
    return Services(
        embedder_of(config),
        _search(config, environment),
        Files(files.root.absolute(), files.writable, files.max_bytes) if files.root else None,
        find_thread_functions(config.tools.modules),
    )


def _search(config: Config, environment: Environment) -> Search | None:
    if config.ask.search is None:
        return None
    from walagent.ask.answering import searcher_of  # noqa: PLC0415 - it imports all of ask

    searcher = searcher_of(config.ask, environment)
    return None if searcher is None else searcher.search


def embedder_of(config: Config) -> NamedEmbedder | None:
    """Return what embeds texts, if the configuration asks for vectors."""
    for provider in providers():
        if config.retrieval.vectors and provider.load_embedder is not None:
            return NamedEmbedder(provider.load_embedder(), provider.name)
    return None
