"""The measurement itself: real SDK, real asker, a provider that plans as `planner` says."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from evals.measure import Result, measure
from evals.place import fingerprint
from evals.questions import the_questions
from tests.shop.conftest import Stage
from tests.shop.planner import planner
from tests.shop.wrong import FANNED_OUT, MISREAD
from walagent import AsyncClient
from walagent.config import AskSettings
from walagent.store.sessions.connections import connect
from walagent.testing import FakeProvider

ROOT = Path(__file__).parents[2]
KEY = "SHOP_API_KEY"


@asynccontextmanager
async def client_of(shop: Stage, provider: FakeProvider) -> AsyncIterator[AsyncClient]:
    """A client whose model is the provider's."""
    spec = replace(provider.spec("openai"), input_price=1.0, output_price=5.0)
    settings = AskSettings(role=shop.role, connections=1)
    async with AsyncClient(shop.dsn, model=spec, settings=settings, api_key=provider.key) as client:
        yield client


async def measured(
    shop: Stage, provider: FakeProvider, names: Collection[str]
) -> dict[str, Result]:
    """Ask the questions of these names, in their order."""
    chosen = [each for each in the_questions() if each.id in names]
    results: list[Result] = []
    async with provider, client_of(shop, provider) as client:
        assert await measure(client, chosen, results.append) is None
    return {each.question.id: each for each in results}


@pytest.mark.slow
async def test_every_question_that_is_planned_well_is_graded_right(shop: Stage) -> None:
    """Follow-ups in their session, questions back, refusals and hostile ones among them."""
    results = await measured(shop, planner(), [each.id for each in the_questions()])
    assert len(results) == len(the_questions())
    assert {name: each.why for name, each in results.items() if each.why} == {}
    plain = results["active_customers"]
    assert (plain.calls, plain.tokens) == (2, 220)
    assert plain.cost == pytest.approx(2 * (100 * 1 + 10 * 5) / 1e6)
    assert results["the_best"].calls == 1


@pytest.mark.slow
async def test_every_question_that_is_planned_badly_is_graded_wrong(shop: Stage) -> None:
    """The grader can fail: joins that repeat rows, other groups, other conditions, wrong kinds."""
    wrong = {**FANNED_OUT, **MISREAD}
    results = await measured(shop, planner(wrong), wrong)
    assert {name for name, each in results.items() if each.right} == set()
    assert results.keys() == wrong.keys()
    assert {each.status for each in results.values()} == {"answered"}


@pytest.mark.slow
async def test_a_question_knows_of_the_one_that_it_follows_up(shop: Stage) -> None:
    """Of those in its session, and of no others."""
    names = ["rentals_by_store_2024", "and_in_2025", "only_the_busiest", "revenue_by_segment"]
    provider = planner()
    results = await measured(shop, provider, names)
    assert [each.why for each in results.values()] == [""] * 4
    first = "How many rentals did each store have in 2024"
    plans = [str(each.body) for each in provider.received[::2]]
    assert [first in plan for plan in plans] == [True, True, True, False]


@pytest.mark.slow
async def test_statements_that_would_do_harm_do_none(shop: Stage) -> None:
    """A planner that obeys is stopped by the guard; nothing has changed, and nothing was shown."""
    harm = {
        "delete_all": "with x as (delete from customer returning 1) select count(*) from x",
        "price_zero": "update product set daily_rate = 0.01",
        "passwords": "select rolname, rolpassword from pg_authid",
        "the_file": "select pg_read_file('/etc/passwd')",
    }
    async with await connect(shop.dsn) as conn:
        before = await fingerprint(conn)
        results = await measured(shop, planner(harm), harm)
        assert await fingerprint(conn) == before
    assert {each.status for each in results.values()} == {"error"}
    assert all(each.right for each in results.values())


@pytest.mark.slow
async def test_an_answer_whose_total_is_repeated_says_so(shop: Stage) -> None:
    """What the check has found stands beside the answer, and the critic has looked at it."""
    async with planner(FANNED_OUT) as provider, client_of(shop, provider) as client:
        question = next(each for each in the_questions() if each.id == "outstanding_by_currency")
        outcome = await client.ask(question.text)
        assert "sum adds up invoice.total once for each row of payment" in str(outcome.caveats)
        assert len(provider.received) == 3


# The command.


def started(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start `python -m evals` in the checkout; nothing of this process's environment counts."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with (folder / "stderr").open("w") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "evals", "--report", str(folder / "eval.json"), *arguments],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT / "src"), **variables},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


def typed(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Type it, and wait until it has ended."""
    with started(folder, *arguments, **variables) as process:
        out, _ = process.communicate(timeout=280)
    said = (folder / "stderr").read_text()
    return subprocess.CompletedProcess(arguments, process.returncode, out, said)


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
        (["--model", "nonsense"], 2, 'model "nonsense" does not exist'),
        (["--model", "embedded/e5"], 2, "is not a language model"),
        (["nonsense"], 2, "no such question: nonsense"),
        (["--config", "not-there.yaml"], 2, 'file "not-there.yaml" does not exist'),
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
def test_a_login_that_may_not_make_databases_is_named(server: str, tmp_path: Path) -> None:
    """And nothing is left behind."""
    name = f"eval_{uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"create role {name} login createrole".encode())
        try:
            ended = typed(tmp_path, "--dsn", make_conninfo(server, user=name), "--model", "gpt-4o")
        finally:
            admin.execute(f"drop role {name}".encode())
    assert ended.returncode == 3, ended.stderr
    assert "permission denied to create database" in ended.stderr


@pytest.mark.slow
async def test_what_was_measured_before_ctrl_c_is_kept(server: str, tmp_path: Path) -> None:
    """The report has it, and the database is gone."""
    async with planner() as fake:
        file = tmp_path / "agents.yaml"
        file.write_text(
            "models:\n  mine: {provider: openai, model_id: m,"
            f" base_url: '{fake.spec('openai').base_url}', credential: {KEY}}}\n"
        )
        arguments = ["--config", str(file), "--dsn", server]
        process = started(tmp_path, *arguments, **{KEY: fake.key})
        assert process.stdout is not None
        while not (await asyncio.to_thread(process.stdout.readline)).startswith("right"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 60) == 130
        process.stdout.close()
    asked = json.loads((tmp_path / "eval.json").read_text())["totals"]["asked"]
    assert 1 <= asked < len(the_questions())
    with psycopg.connect(server) as admin:
        left = admin.execute("select 1 from pg_database where datname like 'walagent_eval_%'")
        assert left.fetchall() == []


@pytest.mark.slow
def test_a_provider_that_is_not_there_ends_it(server: str, tmp_path: Path) -> None:
    """After the first question; the report says so."""
    file = tmp_path / "agents.yaml"
    file.write_text(
        "models:\n  mine: {provider: openai, model_id: m, base_url: 'http://127.0.0.1:9/v1'}\n"
    )
    ended = typed(tmp_path, "--dsn", server, "--config", str(file))
    assert ended.returncode == 3, ended.stderr
    assert "the provider gives no answers" in ended.stderr
    assert json.loads((tmp_path / "eval.json").read_text())["totals"]["asked"] == 1
