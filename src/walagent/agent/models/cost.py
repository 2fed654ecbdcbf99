"""What a call cost, and what the next one can cost at most.  Pure; US dollars."""

from decimal import Decimal

import orjson

from walagent.message import Json, ModelSpec, Request, Usage

_MILLION = Decimal(1_000_000)

# What providers add around each message, tool and call; their own figures are 3 to 10, and up to
# 800 once for tools.
_AROUND_EACH = 32
_AROUND_ALL = 1_500


def cost_of(usage: Usage, spec: ModelSpec) -> Decimal | None:
    """Give what *usage* cost; None when a price that it needs is unknown.

    A usage of nothing at all means that the server did not count, so its cost is unknown too,
    unless the model is free.
    """
    figures = (
        (usage.input_tokens, spec.input_price),
        (usage.cached_tokens, spec.cached_input_price),
        (usage.cache_write_tokens, spec.cache_write_price),
        (usage.output_tokens, spec.output_price),
    )
    if usage.total == 0:
        return Decimal(0) if is_free(spec) else None
    total = Decimal(0)
    for tokens, price in figures:
        if tokens and price is None:
            return None
        total += tokens * _decimal(price)
    return total / _MILLION


def worst_case_cost(request: Request, spec: ModelSpec) -> Decimal | None:
    """Give what a call cannot exceed: what a budget must reserve; None when prices are unknown.

    No tokenizer makes more tokens of a text than it has bytes, so the bytes bound the input
    without knowing the tokenizer; the context window bounds it too.
    """
    return worst_case(request, spec)[1]


def worst_case(request: Request, spec: ModelSpec) -> tuple[int, Decimal | None]:
    """Give the tokens, input and output, and the cost that a call cannot exceed."""
    bound = input_bound(request, schema=spec.tool_mode == "schema")
    tokens = min(spec.context_window, bound)
    output = min(request.max_tokens, spec.max_output_tokens)
    if spec.input_price is None or spec.output_price is None:
        return tokens + output, None
    prices = (spec.input_price, spec.cached_input_price, spec.cache_write_price)
    dearest = max(price for price in prices if price is not None)
    cost = (tokens * _decimal(dearest) + output * _decimal(spec.output_price)) / _MILLION
    return tokens + output, cost


def is_free(spec: ModelSpec) -> bool:
    """Whether calls cost nothing; not where nobody knows."""
    cached = (spec.cached_input_price, spec.cache_write_price)
    return spec.input_price == 0 and spec.output_price == 0 and not any(cached)


def input_bound(request: Request, *, schema: bool = False) -> int:
    """Give a number of tokens that the request's input cannot exceed.

    Args:
        schema: tools are sent twice, in words and as the schema of the answer.
    """
    tools = request.tools * 2 if schema else request.tools
    pieces = (request.system, request.messages, tools, request.examples)
    document = orjson.dumps(pieces, default=_plain)
    parts = sum(len(message.parts) for message in request.messages)
    each = parts + len(request.messages) + len(request.tools) + len(request.examples)
    return len(document) + _AROUND_EACH * each + _AROUND_ALL


def _plain(value: Json) -> Json:
    return dict(value)


def _decimal(price: float | None) -> Decimal:
    return Decimal(str(price or 0))
