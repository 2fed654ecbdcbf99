"""The models of a new installation: prices, and what providers cache."""

from decimal import Decimal

from psycopg import AsyncConnection

from tests.helpers.database import column, rows
from walagent.message import Usage
from walagent.models.cost import cost_of
from walagent.store.attachments import load_models


async def test_registered_models_have_prices(conn: AsyncConnection) -> None:
    """Except those that the documentation lists."""
    unpriced = "select name from agent.model where input_price is null or output_price is null"
    assert await column(conn, unpriced) == ["claude-fable-5-2"]


async def test_each_price_is_plausible(conn: AsyncConnection) -> None:
    """Output costs more than input, a cache less; a band more than what is below it."""
    wrong = """
        select name from agent.model
         where not (output_price >= input_price and coalesce(cached_input_price, 0) <= input_price
                    and coalesce(cache_write_price, input_price) >= input_price)
            or exists (select from jsonb_array_elements(price_bands) b
                        where (b ->> 'input_price')::numeric <= input_price
                           or (b ->> 'output_price')::numeric <= output_price
                           or (b ->> 'above')::integer >= context_window)
    """
    assert await rows(conn, wrong) == []


async def test_bands_reach_the_cost_of_a_call(conn: AsyncConnection) -> None:
    """As the providers publish them."""
    models = await load_models(conn)
    haiku, sol = models["claude-haiku-5-5"], models["gpt-6.2-sol"]
    assert cost_of(Usage(100_000, output_tokens=1_000), haiku) == Decimal("0.0105")
    assert cost_of(Usage(100_001), haiku) == Decimal("0.0500005")
    assert cost_of(Usage(0, 272_001, output_tokens=1_000), sol) == Decimal("0.0694002")
    assert haiku.reasons
    assert (sol.cache_min_tokens, models["claude-opus-4-5"].cache_min_tokens) == (1_024, 4_096)
    assert not models["gpt-4o"].reasons
