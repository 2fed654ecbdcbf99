"""From a provider's failure to the error that says who acts next.

In: a `Failure`, which each provider's module reads out of its SDK's exception.  Out: one of our
errors, whose text names provider, model and status, and never holds a key or words of the request.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

from walagent.base.retries import retry_after
from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Json, ModelSpec, Request, Text, ToolResult, Usage
from walagent.models.error_bodies import FLAGGED, read_error

MESSAGE_LIMIT = 500  # characters of an error's text: it ends in a row and in a log line

# Who acts on which status.  What is not here goes by its hundred: 4xx is refused for good, 5xx is
# worth another try.
STATUS: Mapping[int, type[WalagentError]] = {
    401: ModelUnauthorizedError,
    402: ModelUnauthorizedError,
    403: ModelUnauthorizedError,
    404: ModelUnauthorizedError,  # no such model, or none for this key: no run of it can succeed
    407: ModelUnauthorizedError,  # of the proxy
    408: ModelUnavailableError,
    409: ModelUnavailableError,  # both SDKs count a conflict as passing
    424: ModelUnavailableError,
    425: ModelUnavailableError,
    429: ModelLimitedError,
    498: ModelLimitedError,  # Groq has no capacity for the flexible tier
    499: ModelUnavailableError,
    501: ModelRejectedError,  # "not implemented" does not pass
    503: ModelLimitedError,
    529: ModelLimitedError,
}

_NO_MODEL = "model_not_found"

# Names that say more than their status, in lower case.  These are of the account: the money is gone
# or the key is no good, and no waiting brings it back.
ACCOUNT = frozenset(
    {
        "access_terminated",
        "accessdeniedexception",
        "account_deactivated",
        "account_inactive",
        "account_suspended",
        "api_key_expired",
        "api_key_invalid",
        "api_key_service_blocked",
        "arrearage",
        "authentication_error",
        "billing_disabled",
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "budget_exceeded",
        "consumer_invalid",
        "consumer_suspended",
        "contract_spend_limit_reached",
        "credit_balance_exhausted",
        "enforced_spend_limit_reached",
        "exceeded_current_quota_error",
        "expired_api_key",
        "expiredtokenexception",
        "failed_precondition",  # Google: no free tier there, and billing is off
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_funds",
        "insufficient_quota",
        "insufficient_user_quota",
        "invalid_api_key",
        "linked_organization_spend_limit_reached",
        _NO_MODEL,
        "organization_restricted",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "payment_required",
        "project_spend_limit_exceeded",
        "service_disabled",
        "servicequotaexceededexception",
        "unauthenticated",
        "unrecognizedclientexception",
    }
)

# What was written is refused, and would be again: it is not the key that a 403 speaks of.
_REFUSED = frozenset({FLAGGED, "content_filter", "content_policy_violation", "flagged_input"})

_LIMITED = frozenset(
    {
        "capacity_exceeded",
        "modelnotreadyexception",
        "mpagreementbeingcreated",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "serviceunavailableexception",
        "throttlingexception",
    }
)

_UNCLEAR = frozenset(
    {None, 400, 403, 424, 500, 503, 529}
)  # Groq's 413 never fits, whatever its code

# A reply that the server itself refused: the model is asked again, and writes another.
_PASSING = frozenset({"modelstreamerrorexception", "modeltimeoutexception", "tool_use_failed"})

_A_DAY = re.compile("per_?day")  # in the name of a quota: it comes back by itself, in hours
_HOUR = 3_600.0

# What only words tell, under the status of a malformed request.  It must be how the message
# begins: a row could hold the same words, and be quoted further on.
_ACCOUNT_WORDS = re.compile(
    r"your credit balance is too low|insufficient (?:balance|credits?|funds)"
    r"|(?:incorrect|invalid|expired) api[ _-]?key|api[ _-]?key (?:not valid|expired|is invalid)"
    r"|(?:the )?api[ _-]?key you provided"
    r"|(?:your|this) (?:account|organization|team) (?:is|has been) "
    r"(?:suspended|deactivated|disabled|restricted|not active)",
    re.IGNORECASE,
)

# The request never left us: no connection was made, or none was free.
NEVER_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"})

_CODE = re.compile(r"[A-Za-z][A-Za-z_. -]{0,70}\d{0,3}")  # a name, no number or text of a row
_KEY_LIKE = re.compile(r"[\w-]*\*[\w*-]*|\b(?:sk|pk|gsk|xai|AIza|key)[-_]?\w[\w-]{5,}")
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
        names: all of the provider's short names in the answer, in lower case.
        wait: seconds that the body asks to wait.
        place: the host, and the proxy before it, that could not be reached.
        hint: what to do about a path that is not there.
    """

    status: int | None
    code: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    names: frozenset[str] = frozenset()
    wait: float | None = None
    place: str = ""
    hint: str = ""

    @classmethod
    def of(cls, status: int | None, body: Json, headers: Mapping[str, str] | None = None) -> Self:
        """Read a failure out of the body of an answer, whatever its shape.

        Args:
            status: None: it is what the body says, such as in an answer that began with 200.
        """
        said, headers = read_error(body), headers or {}
        kind = headers.get("x-amzn-errortype", "").partition(":")[0]  # Bedrock has it there alone
        names = said.names | frozenset({kind.lower()} if kind else ())
        return cls(status or said.status, said.code or kind, said.words, headers, names, said.wait)


def error_for(failure: Failure, spec: ModelSpec, request: Request, key: str = "") -> WalagentError:
    """Name the error that *failure* is, in words that are safe to store and to log."""
    kind = _kind(failure)
    text = _sentence(replace(failure, code=_safe_code(failure.code, request, key)), spec)
    if failure.message and (kind is ModelRejectedError or failure.status not in {401, 403}):
        # Of those, what is not about the text is about the key, and may quote half of it.
        words = _safe(failure.message, request, key)
        text += f": {_KEY_LIKE.sub('[…]', words) if kind is ModelUnauthorizedError else words}"
    text = text[:MESSAGE_LIMIT]
    if kind is ModelLimitedError:
        return ModelLimitedError(text, retry_after=_wait_of(failure))
    if kind is ModelUnauthorizedError:
        return ModelUnauthorizedError(text, hint=_hint(failure, spec))
    if kind is ModelUnavailableError:
        wait, counts = _wait_of(failure), not _never_sent(failure)
        return ModelUnavailableError(text, retry_after=wait, counts=counts)
    if kind is ModelRejectedError:
        return ModelRejectedError(text, refused=bool(_names(failure) & _REFUSED))
    return kind(text)


def no_answer(spec: ModelSpec, why: str, usage: Usage | None = None) -> ModelUnavailableError:
    """Name an answer that came and cannot be taken for a whole one.

    Args:
        usage: what it cost all the same.
    """
    return ModelUnavailableError(_sentence(Failure(None, why), spec), usage=usage)


def _names(failure: Failure) -> frozenset[str]:
    return failure.names | {failure.code.lower()}


def _kind(failure: Failure) -> type[WalagentError]:
    names = _names(failure)
    if names & _REFUSED:
        return ModelRejectedError
    if names & ACCOUNT or _ACCOUNT_WORDS.match(failure.message):
        return ModelUnauthorizedError
    if names & _LIMITED and failure.status in _UNCLEAR:
        return ModelLimitedError
    if failure.status == 402 and retry_after(failure.headers):  # noqa: PLR2004 - of HTTP
        return ModelLimitedError  # other calls hold the money that is left
    if names & _PASSING:
        return ModelUnavailableError
    match failure.status:
        case None:
            return ModelUnavailableError
        case status if status in STATUS:
            return STATUS[status]
        case status if 300 <= status < 500:  # noqa: PLR2004 - the hundreds of HTTP
            return ModelRejectedError
        case _:
            return ModelUnavailableError


def _wait_of(failure: Failure) -> float | None:
    """Return the seconds that an answer asks to wait, by its headers or else by its body."""
    if any(_A_DAY.search(name) for name in failure.names):
        return _HOUR
    asked = retry_after(failure.headers)
    return min(failure.wait, _HOUR) if asked is None and failure.wait is not None else asked


def _never_sent(failure: Failure) -> bool:
    return failure.status is None and failure.code in NEVER_SENT


def _sentence(failure: Failure, spec: ModelSpec) -> str:
    name, code = f"{spec.provider} {spec.model_id}", failure.code[:80]
    if failure.place:
        return f"{name} cannot be reached at {failure.place} ({code})"
    if failure.status is None:
        return f"{name} gave no usable answer ({code or 'error'})"
    return f"{name} answered {failure.status} {code}".rstrip()


def _hint(failure: Failure, spec: ModelSpec) -> str:
    if failure.hint:
        return failure.hint
    if failure.status == 404 or _NO_MODEL in failure.names:  # noqa: PLR2004 - of HTTP
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
    message = _TELLING.sub(lambda found: "[…]" if _tells(found, said) else found[0], message)
    if _repeats(message, said, _ECHO):
        return "its words repeat the request and are left out"
    return message


def _tells(found: re.Match[str], said: str) -> bool:
    """Return whether a piece repeats the request; a single digit is in every request."""
    piece = found[found.lastindex or 0]
    return piece in said and not (len(piece) == 1 and piece == found[0])


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
