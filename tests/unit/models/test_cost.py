"""What calls cost."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from walagent.message import (
    Example,
    Message,
    ModelSpec,
    PriceBand,
    Request,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
)
from walagent.models.cost import (
    cost_of,
    input_bound,
    is_free,
    within,
    worst_case,
    worst_case_cost,
)

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


BANDED = replace(
    SPEC,
    context_window=1_000_000,
    price_bands=(PriceBand(2_000, 6.0, 0.6, None, 22.5), PriceBand(50_000, 9.0, 0.9, 9.0, 30.0)),
)


def test_a_long_prompt_has_the_prices_of_its_band() -> None:
    """All tokens of the call, those from a cache included in its length."""
    assert cost_of(Usage(2_000, output_tokens=1_000), BANDED) == Decimal("0.021")
    assert cost_of(Usage(2_001, output_tokens=1_000), BANDED) == Decimal("0.034506")
    assert cost_of(Usage(1, 2_000), BANDED) == Decimal("0.001206")
    assert cost_of(Usage(1, 0, 50_000), BANDED) == Decimal("0.450009")
    assert cost_of(Usage(1, 0, 3_000), BANDED) is None  # the band has no price of writing


def test_the_worst_case_has_the_highest_band_that_the_prompt_can_reach() -> None:
    """The bytes bound the tokens, so the band is not known before the call."""
    short, long = Request("", (), max_tokens=1_000), Request("x" * 5_000, (), max_tokens=1_000)
    assert worst_case_cost(short, BANDED) == worst_case_cost(short, SPEC)
    tokens, cost = worst_case(long, BANDED)
    assert cost == ((tokens - 1_000) * 6 + 1_000 * Decimal("22.5")) / 1_000_000


def test_the_output_limit_is_what_the_money_left_can_buy() -> None:
    """The worst case of the lowered request fits exactly."""
    request = Request("x" * 1_000, (), max_tokens=1_000)
    all_of_it = worst_case_cost(request, SPEC)
    assert all_of_it is not None
    assert within(request, SPEC, cost=all_of_it) is request
    less = within(request, SPEC, cost=all_of_it - Decimal("0.0075"))
    assert less is not None
    assert less.max_tokens == 500
    assert within(request, SPEC, cost=all_of_it - Decimal("0.012")) is None
    assert within(request, SPEC, cost=Decimal(-1)) is None
    assert within(replace(request, max_tokens=10), SPEC, cost=all_of_it) is not None


def test_the_output_limit_is_within_the_tokens_left() -> None:
    """Without prices, too."""
    request = Request("", (), max_tokens=1_000)
    tokens, _ = worst_case(request, UNPRICED)
    less = within(request, UNPRICED, tokens=tokens - 300)
    assert less is not None
    assert less.max_tokens == 700
    assert within(request, UNPRICED, tokens=tokens - 800) is None
    assert within(request, UNPRICED, cost=Decimal(0)) is request


def test_a_short_limit_of_the_agent_is_no_reason_to_refuse() -> None:
    """An agent that needs 16 tokens gets them."""
    request = Request("", (), max_tokens=16)
    cost = worst_case_cost(request, SPEC)
    assert within(request, SPEC, cost=cost) is request


def test_a_free_model_fits_in_any_limit() -> None:
    """Its tokens cost nothing."""
    free = ModelSpec("m", "openai", "x", input_price=0, output_price=0)
    request = Request("", ())
    assert within(request, free, cost=Decimal(0)) is request
