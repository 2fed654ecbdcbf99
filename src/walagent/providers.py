"""Exports for a package with a provider: specification, keys, errors, wire format."""

from walagent.models.credentials import Api, Endpoint, Secrets, find_endpoint
from walagent.models.errors import Failure, error_for, no_answer
from walagent.models.model import Model
from walagent.models.prompt import assembled, parameters, system_text
from walagent.models.provider import Build, Embedder, Embedding, Provider
from walagent.models.replies import clean, count, read_call, read_call_value
from walagent.models.wire_format import Body, WireError, WireFormat, need

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
