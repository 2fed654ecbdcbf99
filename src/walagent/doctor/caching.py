"""Check whether providers cache the prompts of agents."""

from collections.abc import Iterable, Iterator, Mapping

from walagent.deciders.agent_prompt import prefix_tokens
from walagent.doctor.finding import Finding, ok
from walagent.domain.agent_spec import AgentSpec
from walagent.message import ModelSpec


def check_caching(
    agents: Iterable[AgentSpec], models: Mapping[str, ModelSpec]
) -> Iterator[Finding]:
    """Compare the prefix that all runs of an agent share with what its provider caches."""
    for agent in sorted(agents, key=lambda agent: agent.name):
        model = models.get(agent.model)
        if model is None or model.cache_min_tokens is None:
            continue
        tokens, least = prefix_tokens(agent), model.cache_min_tokens
        cached = "is cached" if tokens >= least else "is not cached"
        yield ok(
            f"prompt of agent {agent.name} {cached}: prefix of about {tokens:,} tokens,"
            f" caching by {model.name} starts at {least:,}"
        )
