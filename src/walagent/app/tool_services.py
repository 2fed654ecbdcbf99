"""What the built-in tools of a process can use, as its configuration says."""

from walagent.agent.models.registry import providers
from walagent.config import Config
from walagent.runs.builtin_tools import NamedEmbedder, Services


def tool_services(config: Config) -> Services:
    """Make the services of a process."""
    return Services(_embedder() if config.retrieval.vectors else None)


def _embedder() -> NamedEmbedder | None:
    for provider in providers():
        if provider.load_embedder is not None:
            return NamedEmbedder(provider.load_embedder(), provider.name)
    return None
