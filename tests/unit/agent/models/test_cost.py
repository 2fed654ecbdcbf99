"""What calls cost."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from walagent.agent.models.cost import (
    cost_of,
    input_bound,
    is_free,
    worst_case,
    worst_case_cost,
)
from walagent.message import Example, Message, ModelSpec, Request, Text, ToolCall, ToolSpec, Usage

SPEC = ModelSpec(
    "m",
    "anthropic",
    "x",
    context_window=10_000,
    max_output_tokens=1_000,
    input_price=3.0,
    cached_input_price=0.3,
    cache_write_price=3.75,
    output_price=15.0,
)
UNPRICED = ModelSpec("m", "openai", "x", input_price=0.1)


def test_a_cost_is_exact() -> None:
    """Four prices, in decimal: sums of floats would drift from the bill."""
    usage = Usage(1_000, 2_000, 3_000, 4_000)
    assert cost_of(usage, SPEC) == Decimal("0.07485")


def test_a_price_that_is_needed_and_unknown_makes_the_cost_unknown() -> None:
    """Unknown is not zero; a price that is not needed does not matter."""
    assert cost_of(Usage(1_000), UNPRICED) == Decimal("0.0001")
    assert cost_of(Usage(1_000, output_tokens=1), UNPRICED) is None
    assert worst_case_cost(Request("", ()), UNPRICED) is None


def test_a_server_that_does_not_count_has_an_unknown_cost() -> None:
    """Unless its model is free."""
    assert cost_of(Usage(), SPEC) is None
    free = ModelSpec("m", "embedded", "e5", input_price=0, output_price=0)
    assert cost_of(Usage(), free) == 0


def test_tools_that_are_sent_twice_are_counted_twice() -> None:
    """With tool_mode: schema they stand in the prompt, and in the schema of the answer."""
    tools = (ToolSpec("t", "x" * 5_000, {"type": "object"}),)
    request = Request("", (), tools, max_tokens=1)
    roomy = replace(SPEC, context_window=100_000)
    (once, _), (twice, _) = (
        worst_case(request, replace(roomy, tool_mode=mode)) for mode in ("native", "schema")
    )
    assert twice - once > 5_000


def test_only_a_model_without_any_price_is_free() -> None:
    """Unknown is not free."""
    free = ModelSpec("m", "openai", "x", input_price=0, output_price=0)
    assert is_free(free)
    assert not is_free(replace(free, cache_write_price=1.0))
    assert not is_free(ModelSpec("m", "openai", "x"))


def test_the_worst_case_is_bounded_by_the_window_and_the_output_limit() -> None:
    """At the dearest input price: everything may be written to the cache."""
    request = Request("x" * 1_000_000, (), max_tokens=99_999)
    assert worst_case_cost(request, SPEC) == Decimal("0.0525")


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=200))
def test_the_input_bound_counts_every_byte_that_is_sent(a: str, b: str, c: str) -> None:
    """No tokenizer makes more tokens than bytes, so this is never passed."""
    a, b, c = (text.encode(errors="ignore").decode() for text in (a, b, c))
    messages = (
        Message("user", (Text(a),)),
        Message("assistant", (ToolCall("1", "t", {"x": b}),)),
    )
    tools = (ToolSpec("t", c, {"type": "object"}),)
    request = Request(a, messages, tools, examples=(Example(b, "t", {"y": c}),))
    sent = 2 * len(a.encode()) + 2 * len(b.encode()) + 2 * len(c.encode())
    assert input_bound(request) > sent
