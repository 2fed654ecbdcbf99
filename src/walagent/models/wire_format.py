"""What a provider's wire format is to the fake provider, and checks that its readers share."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from walagent.message import Json, Reply, Request
from walagent.models.replies import as_array, as_object
from walagent.models.script import Fault

Body = dict[str, Json]

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class WireError(Exception):
    """The request is not what the format demands; the fake provider answers 400."""


@dataclass(frozen=True, slots=True)
class WireFormat:
    """How one provider is spoken to.

    Args:
        path: of the request, below the host.
        base_path: what a base URL of this format ends in.
        key_headers: which headers may carry the key, with or without ``Bearer`` before it.
        read: checks a request's body and headers and gives it in the neutral form.
        write: writes a reply as the answer to a body.
        write_error: writes the body of an error with a message.
        write_events: splits the body of an answer into server-sent events; None: it never streams.
    """

    path: str
    read: Callable[[Body, Mapping[str, str]], Request]
    write: Callable[[Reply, Body], Body]
    write_error: Callable[[Fault, str], Body]
    base_path: str = ""
    key_headers: tuple[str, ...] = ("authorization", "x-api-key")
    write_events: Callable[[Body], Iterator[str]] | None = None

    def has_key(self, headers: Mapping[str, str], key: str) -> bool:
        """Whether one of the headers carries *key*."""
        sent = (headers.get(name, "").removeprefix("Bearer ") for name in self.key_headers)
        return key in sent


def need(condition: object, message: str) -> None:
    """Refuse the request with *message* unless *condition* holds.

    Raises:
        WireError: it does not hold.
    """
    if not condition:
        raise WireError(message)


def need_keys(value: Body, known: Iterable[str], where: str) -> None:
    """Refuse keys that the format does not have, as OpenAI and Anthropic do."""
    unknown = sorted(value.keys() - set(known))
    need(not unknown, f"{where}: extra inputs are not permitted: {', '.join(unknown)}")


def need_results(owed: Iterable[str], given: Iterable[str], where: str) -> None:
    """Refuse a transcript in which a call's result is missing, or one has no call."""
    owed, given = list(owed), list(given)
    need(sorted(owed) == sorted(given), f"{where}: results for {owed} expected, got {given}")


def need_schema(schema: Json, key: re.Pattern[str], where: str) -> None:
    """Refuse what some provider of the format refuses in the schema of a tool.

    Types everywhere, objects with properties, arrays with items, keys that match, no references.
    """
    given = as_object(schema)
    parts = [one for name in ("anyOf", "oneOf", "allOf") for one in as_array(given.get(name))]
    need("$ref" not in given, f"{where}: references are not supported")
    need(parts or given.get("type"), f"{where}.type: must be specified")
    properties = as_object(given.get("properties"))
    if given.get("type") == "object":
        need("properties" in given, f"{where}: object schema missing properties")
        strays = [one for one in as_array(given.get("required")) if one not in properties]
        need(not strays, f"{where}.required: {strays} are not defined")
    if given.get("type") == "array":
        need(given.get("items"), f"{where}: array schema missing items")
        need_schema(given["items"], key, f"{where}.items")
    for name, one in properties.items():
        need(key.fullmatch(name), f"{where}: Property keys should match pattern {key.pattern!r}")
        need_schema(one, key, f"{where}.properties[{name}]")
    for at, one in enumerate(parts):
        need_schema(one, key, f"{where}.anyOf[{at}]")


def pieces_of(text: str) -> list[str]:
    """Split a text into words with the space before them, as a stream of tokens comes."""
    return re.findall(r"\s*\S+|\s+", text)
