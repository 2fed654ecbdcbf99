"""What a call cost, and what the next one can cost at most.  Pure; US dollars."""

from dataclasses import replace
from decimal import Decimal
from typing import Final

import orjson

from walagent.message import Json, ModelSpec, PriceBand, Request, Usage
from walagent.models.schema_writer import ToolRules
from walagent.models.tool_schemas import presented

_MILLION = Decimal(1_000_000)

# What providers add around each message, tool and call; their own figures are 3 to 10, and up to
# 800 once for tools.
_AROUND_EACH = 32
_AROUND_ALL = 1_500
_AS_SENT: Final = ToolRules(most_tools=None)
FLEX: Final = "flex"
BATCH: Final = "batch"
LEAST_OUTPUT: Final = 256  # tokens; with fewer, few replies are whole


def cost_of(usage: Usage, spec: ModelSpec, tier: str = "") -> Decimal | None:
    """Give what *usage* cost; None when a price that it needs is unknown.

    Args:
        tier: that served the call, in the provider's word.

    A usage of nothing at all means that the server did not count, so its cost is unknown too,
    unless the model is free.
    """
    prices = _prices(spec, usage.total - usage.output_tokens)
    figures = (
        (usage.input_tokens, prices.input_price),
        (usage.cached_tokens, prices.cached_input_price),
        (usage.cache_write_tokens, prices.cache_write_price),
        (usage.output_tokens, prices.output_price),
    )
    if usage.total == 0:
        return Decimal(0) if is_free(spec) else None
    total = Decimal(0)
    for tokens, price in figures:
        if tokens and price is None:
            return None
        total += tokens * _decimal(price)
    factor = {FLEX: spec.flex_factor, BATCH: spec.batch_factor}.get(tier)
    return total / _MILLION * (1 if factor is None else _decimal(factor))


def worst_case_cost(request: Request, spec: ModelSpec) -> Decimal | None:
    """Give what a call cannot exceed: what a budget must reserve; None when prices are unknown.

    No tokenizer makes more tokens of a text than it has bytes, so the bytes bound the input
    without knowing the tokenizer; the context window bounds it too.
    """
    return worst_case(request, spec)[1]


def worst_case(request: Request, spec: ModelSpec) -> tuple[int, Decimal | None]:
    """Give the tokens, input and output, and the cost that a call cannot exceed."""
    tokens = _most_input(request, spec)
    output = min(request.max_tokens, spec.max_output_tokens)
    prices = _highest_prices(spec, tokens)
    if prices is None:
        return tokens + output, None
    return tokens + output, (tokens * prices[0] + output * prices[1]) / _MILLION


def within(
    request: Request, spec: ModelSpec, *, cost: Decimal | None = None, tokens: int | None = None
) -> Request | None:
    """Lower the output limit so that a call cannot exceed what is left.

    Args:
        cost: US dollars; None, or a model without prices: no limit.
        tokens: None: no limit.

    Returns:
        None if what is left buys fewer than 256 tokens.
    """
    wanted = most = min(request.max_tokens, spec.max_output_tokens)
    used = _most_input(request, spec)
    if tokens is not None:
        most = min(most, tokens - used)
    prices = _highest_prices(spec, used)
    if cost is not None and prices is not None:
        rest = cost - used * prices[0] / _MILLION
        if rest < 0:
            return None
        if prices[1]:
            most = min(most, int(rest * _MILLION / prices[1]))
    if most < min(wanted, LEAST_OUTPUT):
        return None
    return request if most == wanted else replace(request, max_tokens=most)


def _most_input(request: Request, spec: ModelSpec) -> int:
    bound = input_bound(request, schema=spec.tool_mode == "schema")
    return min(spec.context_window, bound)


def _prices(spec: ModelSpec, tokens: int) -> ModelSpec | PriceBand:
    """Return the prices of a call by the tokens of its input."""
    return max(
        (band for band in spec.price_bands if tokens > band.above),
        key=lambda band: band.above,
        default=spec,
    )


def _highest_prices(spec: ModelSpec, tokens: int) -> tuple[Decimal, Decimal] | None:
    """Return the highest prices, of input and output, of a call with up to *tokens* of input."""
    if spec.input_price is None or spec.output_price is None:
        return None
    rows = [spec, *(band for band in spec.price_bands if tokens > band.above)]
    inputs = [
        price
        for row in rows
        for price in (row.input_price, row.cached_input_price, row.cache_write_price)
    ]
    outputs = [row.output_price for row in rows]
    return max(map(_decimal, inputs)), max(map(_decimal, outputs))


def is_free(spec: ModelSpec) -> bool:
    """Whether calls cost nothing; not where nobody knows."""
    cached = (spec.cached_input_price, spec.cache_write_price)
    return spec.input_price == 0 and spec.output_price == 0 and not any(cached)


def input_bound(request: Request, *, schema: bool = False) -> int:
    """Give a number of tokens that the request's input cannot exceed.

    Args:
        schema: tools are sent twice, in words and as the schema of the answer.
    """
    tools = presented(replace(request, messages=()), _AS_SENT).request.tools  # it writes more
    tools = tools * 2 if schema else tools
    pieces = (request.system, request.messages, tools, request.examples)
    document = orjson.dumps(pieces, default=_plain)
    parts = sum(len(message.parts) for message in request.messages)
    each = parts + len(request.messages) + len(request.tools) + len(request.examples)
    return len(document) + _AROUND_EACH * each + _AROUND_ALL


def _plain(value: Json) -> Json:
    return dict(value)


def _decimal(price: float | None) -> Decimal:
    return Decimal(str(price or 0))
