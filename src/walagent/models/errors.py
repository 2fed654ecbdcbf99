"""From a provider's failure to the error that says who acts next.

In: a `Failure`, which each provider's module reads out of its SDK's exception.  Out: one of our
errors, whose text names provider, model and status, and never holds a key or words of the request.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from walagent.base.retries import retry_after
from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import ModelSpec, Request, Text, ToolResult

MESSAGE_LIMIT = 500  # characters of an error's text: it ends in a row and in a log line

# Who acts on which status.  What is not here goes by its hundred: 4xx is refused for good, 5xx is
# worth another try.
STATUS: Mapping[int, type[WalagentError]] = {
    401: ModelUnauthorizedError,
    402: ModelUnauthorizedError,
    403: ModelUnauthorizedError,
    404: ModelUnauthorizedError,  # no such model, or none for this key: no run of it can succeed
    408: ModelUnavailableError,
    409: ModelUnavailableError,  # both SDKs count a conflict as passing
    425: ModelUnavailableError,
    429: ModelLimitedError,
    499: ModelUnavailableError,
    501: ModelRejectedError,  # "not implemented" does not pass
    503: ModelLimitedError,
    529: ModelLimitedError,
}

# Codes that say more than their status: the money is gone, and no waiting brings it back.
SPENT = frozenset(
    {
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "insufficient_quota",
        "linked_organization_spend_limit_reached",
    }
)

# Anthropic says so with 400 and the type of a malformed request.  It must be how the message
# begins: a row could hold the same words, and be quoted further on.
_SPENT_WORDS = re.compile(r"your credit balance is too low", re.IGNORECASE)

# The request never left us: no connection was made, or none was free.
_NEVER_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})

_CODE = re.compile(r"[A-Za-z][A-Za-z_. -]{0,70}\d{0,3}")  # a name, no number or text of a row
_KEY_ECHO = 6  # characters that a provider's words may share with the key by chance
_ECHO = 16  # characters that a provider's words may share with the request by chance
_TELLING = re.compile(r"""'([^']*)'|"([^"]*)"|`([^`]*)`|([\w.+-]*[\d@][\w.@+-]*(?<![.+-]))""")


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with one call.

    Args:
        status: the HTTP status; None when no answer came.
        code: the provider's own short name for it, or the class of the exception.
        message: the provider's words; may repeat the request.
    """

    status: int | None
    code: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def error_for(failure: Failure, spec: ModelSpec, request: Request, key: str = "") -> WalagentError:
    """Name the error that *failure* is, in words that are safe to store and to log."""
    kind = _kind(failure)
    text = _sentence(replace(failure, code=_safe_code(failure.code, request, key)), spec)
    if failure.message and failure.status not in {401, 403}:  # those may quote half the key
        text += f": {_safe(failure.message, request, key)}"
    text = text[:MESSAGE_LIMIT]
    if kind is ModelLimitedError:
        return ModelLimitedError(text, retry_after=retry_after(failure.headers))
    if kind is ModelUnauthorizedError:
        return ModelUnauthorizedError(text, hint=_hint(failure, spec))
    if kind is ModelUnavailableError:
        wait = retry_after(failure.headers)
        return ModelUnavailableError(text, retry_after=wait, counts=not _never_sent(failure))
    return kind(text)


def no_answer(spec: ModelSpec, why: str) -> ModelUnavailableError:
    """Name an answer that came and cannot be taken for a whole one."""
    return ModelUnavailableError(_sentence(Failure(None, why), spec))


def _kind(failure: Failure) -> type[WalagentError]:
    if failure.code in SPENT or _SPENT_WORDS.match(failure.message):
        return ModelUnauthorizedError
    match failure.status:
        case None:
            return ModelUnavailableError
        case status if status in STATUS:
            return STATUS[status]
        case status if 300 <= status < 500:  # noqa: PLR2004 - the hundreds of HTTP
            return ModelRejectedError
        case _:
            return ModelUnavailableError


def _never_sent(failure: Failure) -> bool:
    return failure.status is None and failure.code in _NEVER_SENT


def _sentence(failure: Failure, spec: ModelSpec) -> str:
    name, code = f"{spec.provider} {spec.model_id}", failure.code[:80]
    if failure.status is None:
        return f"{name} gave no usable answer ({code})"
    return f"{name} answered {failure.status} {code}".rstrip()


def _hint(failure: Failure, spec: ModelSpec) -> str:
    if failure.status == 404:  # noqa: PLR2004 - of HTTP
        return f"check model_id and base_url of {spec.name} in agent.model"
    if spec.credential:
        return f"check the key in {spec.credential} and its account's balance"
    return "check the provider's key and its account's balance"


def _safe(message: str, request: Request, key: str) -> str:
    """Take out of the provider's words what they repeat of the request.

    What is quoted, and what looks like a number, an address or a password, stays when the
    request does not hold it: names of parameters are what an operator needs to read.
    """
    if key:
        message = message.replace(key, "[key]")
        if _repeats(message, key, _KEY_ECHO):
            return "its words repeat a part of the key and are left out"
    said = " ".join(" ".join(_words(request)).split())
    message = " ".join(message[: 4 * MESSAGE_LIMIT].split())
    message = _TELLING.sub(
        lambda found: "[…]" if found[found.lastindex or 0] in said else found[0], message
    )
    if _repeats(message, said, _ECHO):
        return "its words repeat the request and are left out"
    return message


def _safe_code(code: str, request: Request, key: str) -> str:
    """Return the provider's short name of a failure, or nothing if it is not one.

    A provider or proxy decides what it contains: it can repeat the key, or a value of the request.
    """
    if not _CODE.fullmatch(code) or _repeats(code, key, _KEY_ECHO):
        return ""
    return "" if _repeats(code, " ".join(_words(request)), _ECHO) else code


def _repeats(text: str, source: str, length: int) -> bool:
    """Return whether *text* shares so many characters in a row with *source*."""
    return any(text[at : at + length] in source for at in range(len(text) - length + 1))


def _words(request: Request) -> Iterator[str]:
    """Give every text of the request that comes from a person, a row or a model."""
    yield request.system
    for part in chain.from_iterable(message.parts for message in request.messages):
        match part:
            case Text(text):
                yield text
            case ToolResult(content=content):
                yield content
            case _:
                yield str(part)
