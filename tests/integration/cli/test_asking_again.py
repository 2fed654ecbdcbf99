"""`walagent replay --questions`: saved questions are asked again, each without its statement."""

import json
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all, value
from tests.integration.cli.test_ask import ANSWER, COUNT, PLAN, QUESTION, shell
from walagent.testing import call

SAVED = f"""
insert into agent.verified_query (question, sql, saved_at) values
    ('{QUESTION}', 'select count(*), country from customer group by country', now()),
    ('How many customers are in CH?', $$select count(*) from customer where country = 'CH'$$,
     now() - interval '1 minute'),
    ('Who left?', 'select * from customer_who_left', now() - interval '2 minutes')
"""
ALONE = call(
    "plan",
    reasoning="Count.",
    assumptions=[],
    steps=[
        {
            "id": "a",
            "type": "SQL",
            "description": "count",
            "tool_input": {"query": "select count(*) + 1 as n from customer where country = 'CH'"},
        }
    ],
)


async def test_the_rows_of_answers_are_compared_with_those_of_saved_statements(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A right one, a wrong one, and one whose statement does not run any more."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER, ALONE, ANSWER] * 2) as on:
        await run_all(conn, SAVED)
        ended = await on.types("replay", "--questions", "--fail-under", "0.9")
        assert ended.code == 1
        assert "asking m 3 saved questions in session evaluation-1" in ended.err
        assert "0.5 are right, fewer than 0.9" in ended.err
        assert ended.out.splitlines()[:4] == [
            '── question 2, "How many customers are in CH?": wrong',
            "  other values",
            "  candidate: select count(*) + 1 as n from customer where country = 'CH'",
            "  saved:     select count(*) from customer where country = 'CH'",
        ]
        assert '── question 3, "Who left?": not compared' in ended.out
        assert "evaluation 1: 3 of 3 cases; 1 did not succeed" in ended.out
        assert "right: 1 of 2" in ended.out

        document = (await on.types("replay", "--questions", "--last", "2", "--json")).worked().json
        assert [case["is_right"] for case in document["cases"]] == [True, False]
        assert document["cases"][0]["candidate"]["sql"] == [COUNT]
        run = document["cases"][0]["candidate"]["run"]
        assert await value(conn, f"select kind from agent.run where id = {run}") == "question"
        rows = await value(conn, "select string_agg(e::text, '') from agent.evaluation_case e")
        assert "DE" not in rows
        shown = (await on.types("evaluations", "compare", "1", "2")).worked().out
        assert "2 cases in common; 2 agree" in shown
        (last, first) = (await on.types("evaluations", "list", "--json")).worked().json
        assert (first["attachment"], last["are_right"], last["labelled"]) == (None, 1, 2)
        assert "Who left" in (await on.types("evaluations", "show", "1")).worked().out


async def test_a_question_is_asked_without_its_statement_and_without_the_others(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Saved statements of other questions are examples, as they are of a new question."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER, ALONE, ANSWER]) as on:
        await run_all(conn, SAVED)
        (await on.types("replay", "--questions", "--last", "2")).worked()
        first, _, second, _ = [json.dumps(each.body) for each in on.provider.received]
        assert "group by country" not in first
        assert "where country = 'CH'" in first
        assert "group by country" in second
        assert "where country = 'CH'" not in second
        assert "Twenty in each country" not in second
        (session,) = (await on.types("knowledge", "sessions", "--json")).worked().json
        assert "evaluation-1" in session.values()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["desk"], "ATTACHMENT"),
        (["--dataset", "x"], "--dataset"),
        (["--judge", "m"], "--judge"),
        (["--jobs", "2"], "--jobs"),
        (["--failed"], "--failed"),
    ],
)
async def test_what_questions_do_not_have_is_refused(
    conn: AsyncConnection, dsn: str, tmp_path: Path, options: list[str], words: str
) -> None:
    """Nothing is asked."""
    async with shell(conn, dsn, tmp_path, []) as on:
        ended = await on.types("replay", "--questions", *options)
        assert (ended.code, f"--questions cannot be combined with {words}" in ended.err) == (
            2,
            True,
        )


async def test_without_a_saved_question_there_is_no_evaluation(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The error says how to save one."""
    async with shell(conn, dsn, tmp_path, []) as on:
        ended = await on.types("replay", "--questions")
        assert (ended.code, "no saved question" in ended.err) == (2, True)
        assert await value(conn, "select count(*) from agent.evaluation") == 0
        ended = await on.types("replay")
        assert (ended.code, "Missing argument 'ATTACHMENT'" in ended.err) == (2, True)
