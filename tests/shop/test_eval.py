"""The measurement itself: real SDK, real asker, a provider that plans as `planner` says."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from evals.by_hand import answer_to
from evals.grade import same_rows
from evals.measure import Result, measure
from evals.questions import the_questions
from tests.shop.conftest import Stage
from tests.shop.planner import planner
from tests.shop.wrong import FANNED_OUT, MISREAD
from walagent import AsyncClient
from walagent.config import Ask
from walagent.testing import FakeProvider

ROOT = Path(__file__).parents[2]
KEY = "SHOP_API_KEY"


@asynccontextmanager
async def client_of(shop: Stage, provider: FakeProvider) -> AsyncIterator[AsyncClient]:
    """A client whose model is the provider's."""
    spec = replace(provider.spec("openai"), input_price=1.0, output_price=5.0)
    settings = Ask(role=shop.role, connections=1)
    async with AsyncClient(shop.dsn, model=spec, settings=settings, api_key=provider.key) as client:
        yield client


async def measured(shop: Stage, instead: Mapping[str, str] | None = None) -> dict[str, Result]:
    """Ask the questions: all, or those whose statements are others than the reference."""
    chosen = [each for each in the_questions() if instead is None or each.id in instead]
    async with planner(instead) as provider, client_of(shop, provider) as client:
        results, error = await measure(client, chosen, lambda _: None)
        assert error is None
        return {each.question.id: each for each in results}


@pytest.mark.slow
async def test_every_question_that_is_planned_well_is_graded_right(shop: Stage) -> None:
    """Follow-ups in their session, questions back, refusals and hostile ones among them."""
    results = await measured(shop)
    assert len(results) == len(the_questions())
    assert {name: each.why for name, each in results.items() if each.why} == {}
    plain = results["active_customers"]
    assert (plain.calls, plain.tokens) == (2, 220)
    assert plain.cost == pytest.approx(2 * (100 * 1 + 10 * 5) / 1e6)
    assert results["the_best"].calls == 1


async def test_every_question_that_is_planned_badly_is_graded_wrong(shop: Stage) -> None:
    """The grader can fail: joins that repeat rows, other groups, other conditions, wrong kinds."""
    wrong = {**FANNED_OUT, **MISREAD}
    results = await measured(shop, wrong)
    assert {name for name, each in results.items() if each.right} == set()
    assert results.keys() == wrong.keys()
    assert {each.status for each in results.values()} == {"answered"}


async def test_an_answer_whose_total_is_repeated_says_so(shop: Stage) -> None:
    """What the check has found stands beside the answer, and the critic has looked at it."""
    async with planner(FANNED_OUT) as provider, client_of(shop, provider) as client:
        question = next(each for each in the_questions() if each.id == "outstanding_by_currency")
        outcome = await client.ask(question.text)
        assert "sum adds up invoice.total once for each row of payment" in str(outcome.caveats)
        assert len(provider.received) == 3


def test_rows_are_compared_by_value() -> None:
    """Names, order of columns and spelling do not count; values, number and order of rows do."""
    expected = answer_to("customers_by_country")
    turned = [
        (str(n) + ".000", "more", code.lower()) for code, n in expected if isinstance(code, str)
    ]
    assert same_rows(expected, turned[::-1])
    assert not same_rows(expected, turned[1:])
    assert not same_rows(expected, [*turned[1:], turned[1]])
    assert not same_rows(expected, turned[::-1], ordered=True)
    assert same_rows([("2025-01", 1.04)], [("2025-01-01 00:00:00", "1.09")], within=0.051)
    assert not same_rows([("2025-01", 1.04)], [("2025-01-01 00:00:00", "1.10")], within=0.051)
    assert same_rows([(None, 1)], [(None, "1")])
    assert not same_rows([(None, 1)], [("none", "1")])
    assert not same_rows([(1,)], [("NaN",)])


# The command.


def typed(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Type `python -m evals` in the checkout; nothing of this process's environment counts."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "evals", "--report", str(folder / "eval.json"), *arguments],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT / "src"), **variables},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_the_command_measures_and_writes_a_report(
    server: str, tmp_path: Path, provider: str
) -> None:
    """On a database that is there only for it."""
    async with planner() as fake:
        spec = fake.spec(provider)
        file = tmp_path / "agents.yaml"
        file.write_text(
            "models:\n"
            f"  mine: {{provider: {provider}, model_id: m, base_url: '{spec.base_url}',"
            f" credential: {KEY}, input_price: 1, output_price: 5}}\n"
            "ask: {connections: 1}\n"
        )
        arguments = ["--config", str(file), "--dsn", server, "--level", "1", "as_shares"]
        arguments += [each.id for each in the_questions() if each.level == 1]
        ended = await asyncio.to_thread(typed, tmp_path, *arguments, **{KEY: fake.key})
    assert ended.returncode == 0, ended.stderr
    assert "mine (" in ended.stdout
    report = json.loads((tmp_path / "eval.json").read_text())
    assert report["totals"]["accuracy"] == 1.0
    assert report["totals"]["cost"] > 0
    assert report["unchanged"] is True
    assert report["totals"]["asked"] == len(report["questions"]) == 14


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 3, "no model is named"),
        (["--model", "gpt-4o"], 3, "OPENAI_API_KEY"),
        (["--model", "nonsense"], 2, 'there is no model "nonsense"'),
        (["--model", "embedded/e5"], 3, "only chooses between labels"),
        (["nonsense"], 2, "no such question: nonsense"),
        (["--config", "not-there.yaml"], 2, "there is no file not-there.yaml"),
    ],
)
def test_what_is_missing_is_named_with_its_mend(
    server: str, tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    """With the exit codes of walagent."""
    ended = typed(tmp_path, "--dsn", server, *arguments)
    assert ended.returncode == code, ended.stderr
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_provider_that_is_not_there_ends_it(server: str, tmp_path: Path) -> None:
    """After the first question; the report says so."""
    file = tmp_path / "agents.yaml"
    file.write_text(
        "models:\n  mine: {provider: openai, model_id: m, base_url: 'http://127.0.0.1:9/v1'}\n"
    )
    ended = typed(tmp_path, "--dsn", server, "--config", str(file))
    assert ended.returncode == 3, ended.stderr
    assert "the provider does not answer" in ended.stderr
    assert json.loads((tmp_path / "eval.json").read_text())["totals"]["asked"] == 1
