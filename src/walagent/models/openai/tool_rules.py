"""What servers of Chat Completions take of tools and calls, by host and by model.

A gateway hides who answers, so one that is not known gets what all of them take.
"""

import re
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from walagent.message import ModelSpec
from walagent.models.credentials import Endpoint
from walagent.models.schema_writer import ToolRules

COMMON: Final = ToolRules()
OPENAI: Final = ToolRules(name=re.compile(r"[A-Za-z0-9_-]{1,64}"), key=re.compile(r".+", re.DOTALL))
# A subset of OpenAPI 3.0: one type each, lists of texts alone, no references.
GEMINI: Final = ToolRules(
    keywords=frozenset(
        {
            "anyOf",
            "description",
            "enum",
            "format",
            "items",
            "maxItems",
            "maxLength",
            "maximum",
            "minItems",
            "minLength",
            "minimum",
            "nullable",
            "pattern",
            "properties",
            "required",
            "type",
        }
    ),
)
MISTRAL: Final = replace(COMMON, call_id=re.compile(r"[A-Za-z0-9]{9}"))

_GEMINI = re.compile(r"(?:[\w.-]+/)*gemini", re.IGNORECASE)
_MISTRAL = re.compile(r"(?:[\w.-]+/)*(?:open-)?(?:mi[sx]tral|\w*stral)", re.IGNORECASE)
_DEEPSEEK = re.compile(r"(?:[\w.-]+/)*deepseek", re.IGNORECASE)


def rules_of(spec: ModelSpec, endpoint: Endpoint) -> ToolRules:
    """Return what the server of a model takes."""
    if endpoint.official:
        return OPENAI
    if is_google(spec) or _at(endpoint.base_url, "googleapis.com"):
        return GEMINI
    return MISTRAL if _MISTRAL.match(spec.model_id) or is_mistral(endpoint) else COMMON


def is_google(spec: ModelSpec) -> bool:
    """Whether the model is one of Gemini's, wherever it answers."""
    return _GEMINI.match(spec.model_id) is not None


def is_deepseek(spec: ModelSpec) -> bool:
    """Whether the model is one of DeepSeek's."""
    return _DEEPSEEK.match(spec.model_id) is not None


def is_mistral(endpoint: Endpoint) -> bool:
    """Whether Mistral itself answers, which refuses fields that other servers ignore."""
    return _at(endpoint.base_url, "mistral.ai")


def _at(base_url: str, domain: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host == domain or host.endswith(f".{domain}")
