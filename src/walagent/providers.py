"""Exports for a package with a provider: specification, keys, errors, wire format."""

from walagent.agent.model import Model
from walagent.agent.models.credentials import Api, Endpoint, Secrets, find_endpoint
from walagent.agent.models.errors import Failure, error_for, no_answer
from walagent.agent.models.prompt import assembled, parameters, system_text
from walagent.agent.models.provider import Build, Embedder, Embedding, Provider
from walagent.agent.models.replies import clean, count, read_call, read_call_value
from walagent.agent.models.wire import Body, WireError, WireFormat, need

__all__ = [
    "Api",
    "Body",
    "Build",
    "Embedder",
    "Embedding",
    "Endpoint",
    "Failure",
    "Model",
    "Provider",
    "Secrets",
    "WireError",
    "WireFormat",
    "assembled",
    "clean",
    "count",
    "error_for",
    "find_endpoint",
    "need",
    "no_answer",
    "parameters",
    "read_call",
    "read_call_value",
    "system_text",
]
