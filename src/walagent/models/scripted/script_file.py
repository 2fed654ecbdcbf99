"""Read a script of a scripted model from a YAML or JSON file; here is one.

::

    latency: 0.2                       # seconds before each answer
    pace: 0.1                          # seconds between its words, while somebody reads them
    usage: {input_tokens: 100, output_tokens: 10}
    rules:                             # the first that matches answers
      - match: refund                  # in what the user's side said
        prompt: You triage             # in the agent's system prompt
        replies:
          - call: refund_user
            arguments: {user_id: 7}
          - The money is on its way.
    replies:                           # where no rule matches
      - - Let me look.                 # words and calls in one reply
        - call: lookup
      - fault: {status: 429, retry_after: "3"}
      - Done.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import yaml

from walagent.errors import ConfigError
from walagent.message import Json, ModelSpec, Usage
from walagent.models.replies import as_array, as_object
from walagent.models.script import USAGE, Answer, Fault, Rule, Script, ScriptedCall, Words
from walagent.models.scripted.scripted_model import ScriptedModel


def scripted_model(spec: ModelSpec) -> ScriptedModel:
    """Make the scripted model of a registry row.

    The file is its base URL, its parameter `script`, or else its model id.

    Raises:
        ConfigError: the file cannot be read, or is not a script.
    """
    path = spec.parameters.get("script") or spec.base_url or spec.model_id
    return ScriptedModel.of(read_script(Path(str(path).removeprefix("file://"))), spec)


def read_script(path: Path) -> Script:
    """Read the script in *path*.

    Raises:
        ConfigError: the file cannot be read, or is no script; the text says where.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"script {path} cannot be read: {error}") from error
    return _script(document, str(path))


def _script(document: Json, where: str) -> Script:
    given = _fields(document, ("latency", "pace", "usage", "rules", "replies"), where)
    rules = _list(given.get("rules", []), f"{where}, rules")
    return Script(
        replies=_answers(given.get("replies", []), f"{where}, replies"),
        rules=tuple(_rule(rule, f"{where}, rule {at}") for at, rule in enumerate(rules, 1)),
        latency=_number(given.get("latency", 0), f"{where}, latency"),
        pace=_number(given.get("pace", 0), f"{where}, pace"),
        usage=_usage(given["usage"], f"{where}, usage") if "usage" in given else USAGE,
    )


def _rule(document: Json, where: str) -> Rule:
    given = _fields(document, ("match", "prompt", "replies"), where)
    match {"match": "", "prompt": "", **given}:
        case {"match": str(text), "prompt": str(prompt), "replies": replies} if text or prompt:
            return Rule(text, _answers(replies, where), prompt)
        case _:
            raise _wrong(where, "a text to match, in match or prompt, and a list of replies")


def _answers(document: Json, where: str) -> tuple[Answer, ...]:
    items = _list(document, where)
    return tuple(_answer(item, f"{where}, reply {at}") for at, item in enumerate(items, 1))


def _answer(document: Json, where: str) -> Answer:
    match document:
        case {"fault": fault}:
            return _fault(fault, where)
        case _:
            return _words(document, where)


def _words(document: Json, where: str) -> Words:
    if isinstance(document, list):
        return [_piece(piece, where) for piece in as_array(document)]
    return _piece(document, where)


def _piece(document: Json, where: str) -> str | ScriptedCall:
    if isinstance(document, str):
        return document
    given = _fields(document, ("call", "arguments"), where)
    filled: Json = {"arguments": {}, **given}
    match filled:
        case {"call": str(name), "arguments": {**arguments}}:
            return ScriptedCall(name, as_object(arguments))
        case _:
            raise _wrong(where, "a text, or a call with its arguments")


def _fault(document: Json, where: str) -> Fault:
    given = _fields(document, tuple(field.name for field in fields(Fault)), where)
    return Fault(
        status=int(_number(given.get("status", 500), where)),
        retry_after=str(given.get("retry_after", "")),
        code=str(given.get("code", "")),
        message=str(given.get("message", "")),
        headers={str(name): str(text) for name, text in as_object(given.get("headers")).items()},
        body=str(given.get("body", "")).encode(),
        reply=_words(given["reply"], where) if "reply" in given else None,
        stall=_number(given.get("stall", 0), where),
        drip=_number(given.get("drip", 0), where),
        cut=bool(given.get("cut", False)),
        cut_at=_whole(given["cut_at"], where) if "cut_at" in given else None,
        drop=bool(given.get("drop", False)),
    )


def _usage(document: Json, where: str) -> Usage:
    given = _fields(document, tuple(field.name for field in fields(Usage)), where)
    return Usage(**{name: int(_number(value, where)) for name, value in given.items()})


def _fields(document: Json, known: tuple[str, ...], where: str) -> Mapping[str, Json]:
    if not isinstance(document, dict):
        raise _wrong(where, f"a mapping with {', '.join(known)}")
    given = as_object(document)
    if unknown := sorted(str(name) for name in given.keys() - set(known)):
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(known)}")
    return given


def _list(document: Json, where: str) -> list[Json]:
    if not isinstance(document, list):
        raise _wrong(where, "a list")
    return as_array(document)


def _number(document: Json, where: str) -> float:
    if isinstance(document, bool) or not isinstance(document, int | float) or document < 0:
        raise _wrong(where, "a number of 0 or more")
    return document


def _whole(document: Json, where: str) -> int:
    if isinstance(document, bool) or not isinstance(document, int):
        raise _wrong(where, "a whole number")
    return document


def _wrong(where: str, wanted: str) -> ConfigError:
    return ConfigError(f"{where}: this should be {wanted}")
