"""Datasets with labels, and evaluations that are compared later."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.integration.cli.recorded import add_run, desk, record, reply, result, sorted_as
from tests.integration.cli.user import User, empty_database


@pytest.fixture
def user(server: str, tmp_path: Path) -> Iterator[User]:
    """Somebody with an agent on tickets; the daemon does not run."""
    with empty_database(server) as dsn:
        yield desk(tmp_path, dsn)


def replayed(user: User, *options: str) -> dict[str, Any]:
    """The document of a replay."""
    return user.types("replay", "desk", "--json", *options).worked().json


def execute(user: User, statement: str) -> None:
    """Change the database."""
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute(statement.encode())


def test_a_dataset_of_runs_outlives_them(user: User) -> None:
    """With what they did as labels, which people change; `--fail-under` counts what is right."""
    sorted_as(user, "broken", "bug")
    sorted_as(user, "refund", "billing")
    user.types("evaluations", "datasets", "create", "golden", "desk", "--expect-recorded").worked()
    done = replayed(user, "--dataset", "golden", "--model", "other")
    assert [(case["was_right"], case["is_right"]) for case in done["cases"]] == [
        (True, False),
        (True, True),
    ]
    assert done["against_recorded"] == {
        "cases": 2, "first_right": 2, "second_right": 1, "better": 0, "worse": 1, "p": 1.0,
    }  # fmt: skip
    first, _ = user.types("evaluations", "datasets", "show", "golden", "--json").worked().json
    assert first["expected"] == {"tools": ["update_row"], "values": {"category": "bug"}}
    label = '{"values": {"category": "hardware"}}'
    user.types("evaluations", "datasets", "label", str(first["id"]), label).worked()
    execute(user, "delete from agent.run")
    under = ("--dataset", "golden", "--fail-under", "1")
    user.types("replay", "desk", *under, "--model", "other").worked()
    refused = user.types("replay", "desk", *under)
    assert refused.code == 1
    assert "0.5 are right" in refused.err
    (listed,) = user.types("evaluations", "datasets", "list", "--json").worked().json
    assert (listed["cases"], listed["labelled"], listed["source"]) == (2, 2, "runs")
    user.types("evaluations", "datasets", "label", str(first["id"]), "--remove").worked()
    (listed,) = user.types("evaluations", "datasets", "list", "--json").worked().json
    assert listed["labelled"] == 1


CORRECT = """
insert into agent.correction (run_id, commit_lsn, ordinal, column_name, number, kind, relation,
                              schema_name, table_name, key, wrote, value, xid, committed_at)
select id, '0/1', 0, 'category', 1, 'changed', 'tickets'::regclass, 'public', 'tickets',
       jsonb_build_object('id', key), 'billing', 'bug', 1, now()
  from agent.run where id = %s
"""


def test_what_people_corrected_is_a_label(user: User) -> None:
    """Of a replay and of a dataset; the rest of what such a run did can be right."""
    run = sorted_as(user, "refund", "billing")
    sorted_as(user, "broken", "bug")
    with psycopg.connect(user.dsn or "") as conn:
        conn.execute(CORRECT, [run])
    found = user.types("replay", "desk", "--corrected", "--json").worked().json
    ((case,), labelled) = found["cases"], found["labelled"]
    assert (case["run_id"], labelled, case["was_right"], case["is_right"]) == (run, 1, False, False)
    assert case["expected"] == {"values": {"category": "bug"}}
    every = user.types("replay", "desk", "--json").worked().json
    assert [each["expected"] is not None for each in every["cases"]] == [True, False]

    user.types("evaluations", "datasets", "create", "wrong", "desk", "--corrected").worked()
    (case,) = user.types("evaluations", "datasets", "show", "wrong", "--json").worked().json
    assert case["expected"] == {"values": {"category": "bug"}}
    options = ("--corrected", "--expect-recorded")
    user.types("evaluations", "datasets", "create", "whole", "desk", *options).worked()
    (case,) = user.types("evaluations", "datasets", "show", "whole", "--json").worked().json
    assert case["expected"]["values"] == {"category": "bug"}
    assert case["expected"]["tools"] == ["update_row"]
    assert user.types("replay", "desk", "--corrected", "--dataset", "whole").code == 2


def test_what_people_say_of_a_run_is_a_label(user: User) -> None:
    """What it did, if it was right, also where somebody has changed it since; if not, no label."""
    runs = [sorted_as(user, "refund", "billing") for _ in range(3)]
    sorted_as(user, "broken", "bug")
    with psycopg.connect(user.dsn or "") as conn:
        for run in runs[:2]:
            conn.execute(CORRECT, [run])
    for run, answer in zip(runs, ("right", "wrong", "wrong"), strict=True):
        user.types("runs", "score", str(run), answer).worked()
    label = {"tools": ["update_row"], "values": {"category": "billing"}}
    labels = [label, {"values": {"category": "bug"}}, None]
    done = replayed(user, "--scored")
    assert [(case["run_id"], case["expected"]) for case in done["cases"]] == list(
        zip(runs, labels, strict=True)
    )
    assert [case["was_right"] for case in done["cases"]] == [True, False, None]
    created = ("evaluations", "datasets", "create", "said", "desk", "--scored")
    user.types(*created, "--expect-recorded").worked()
    cases = user.types("evaluations", "datasets", "show", "said", "--json").worked().json
    assert cases[0]["expected"] == label
    assert user.types("replay", "desk", "--scored", "--dataset", "said").code == 2
    assert "--scored" in user.types(*created, "--from", "table").err


def test_a_dataset_of_rows_hides_what_is_expected(user: User) -> None:
    """Nothing was recorded, so a candidate is right or wrong, and agrees with nothing."""
    for issue, category in (("refund", "billing"), ("broken", "hardware"), ("hello", None)):
        with psycopg.connect(user.dsn or "", autocommit=True) as conn:
            conn.execute("insert into tickets (issue, category) values (%s, %s)", [issue, category])
    user.types(
        "evaluations",
        "datasets",
        "create",
        "rows",
        "desk",
        "--from",
        "table",
        "--expect",
        "category",
    ).worked()
    cases = user.types("evaluations", "datasets", "show", "rows", "--json").worked().json
    assert [case["change"]["new"]["category"] for case in cases] == [None] * 3
    assert [case["expected"] for case in cases] == [
        {"values": {"category": "billing"}}, {"values": {"category": "hardware"}}, None,
    ]  # fmt: skip
    first = replayed(user, "--dataset", "rows")
    assert [(c["agrees"], c["is_right"]) for c in first["cases"]] == [
        (None, True), (None, False), (None, None),
    ]  # fmt: skip
    second = replayed(user, "--dataset", "rows", "--model", "other")
    assert (first["are_right"], second["are_right"], second["labelled"]) == (1, 2, 2)
    ids = (str(first["id"]), str(second["id"]))
    found = user.types("evaluations", "compare", *ids, "--json").worked().json
    assert found["right"] == {
        "cases": 2, "first_right": 1, "second_right": 2, "better": 1, "worse": 0, "p": 1.0,
    }  # fmt: skip
    (differing,) = found["differing"]
    assert differing["second"]["candidate"]["calls"][0]["arguments"] == {"category": "hardware"}
    out = user.types("evaluations", "compare", *ids).worked().out
    assert "update_row(category=hardware)" in out
    assert "(p = 1)" in out
    assert replayed(user, "--dataset", "rows", "--limit", "1")["labelled"] == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("alter table tickets drop column status", 'no longer has the column "status"'),
        ("alter table tickets add column more int", 'has the new column "more"'),
        ("alter table tickets alter status type varchar(20)", "character varying(20) instead"),
    ],
)
def test_a_dataset_whose_table_changed_its_shape_is_refused(
    user: User, change: str, words: str
) -> None:
    """By the name of the column, before a model is called."""
    sorted_as(user, "refund", "billing")
    user.types("evaluations", "datasets", "create", "golden", "desk").worked()
    execute(user, "drop function close_ticket; " + change)
    user.writes(
        (user.folder / "agents.yaml")
        .read_text()
        .replace("tools: [close_ticket]", "tools: []")
        .replace(", bind: {ticket_id: id}", "")
    )
    user.types("apply").worked()
    refused = user.types("replay", "desk", "--dataset", "golden")
    assert (refused.code, refused.out) == (2, "")
    assert 'dataset "golden" does not fit its table: public.tickets' in refused.err
    assert words in refused.err


def test_datasets_and_evaluations_are_deleted_by_name(user: User) -> None:
    """An evaluation outlives its dataset."""
    sorted_as(user, "refund", "billing")
    created = user.types("evaluations", "datasets", "create", "golden", "desk").worked()
    assert 'created dataset "golden" with 1 case\n' in created.out + created.err
    found = replayed(user, "--dataset", "golden")
    user.types("evaluations", "datasets", "drop", "golden").worked()
    shown = user.types("evaluations", "show", str(found["id"]), "--json").worked().json
    assert (shown["dataset"], len(shown["cases"])) == ("golden", 1)
    refused = user.types("evaluations", "delete", str(found["id"]), "77")
    assert refused.code == 2
    user.types("evaluations", "delete", str(found["id"])).worked()
    assert user.types("evaluations", "list", "--json").worked().json == []


def test_old_evaluations_are_removed_with_old_runs(user: User) -> None:
    """By retention; a dataset stays."""
    sorted_as(user, "refund", "billing")
    user.types("evaluations", "datasets", "create", "golden", "desk").worked()
    for _ in range(2):
        replayed(user)
    old = "update agent.evaluation set ended_at = now() - interval '8 days' where id = 1"
    execute(user, f"{old}; select agent.prune('7 days')")
    left = user.types("evaluations", "list", "--json").worked().json
    assert [each["id"] for each in left] == [2]
    assert len(user.types("evaluations", "datasets", "list", "--json").worked().json) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluations", "datasets", "create", "x", "nothing"], 'no attachment is named "nothing"'),
        (["evaluations", "datasets", "create", "x", "desk"], "no case"),
        (
            ["evaluations", "datasets", "create", "golden", "desk", "--from", "table"],
            'dataset "golden" exists',
        ),
        (
            [
                "evaluations",
                "datasets",
                "create",
                "x",
                "desk",
                "--from",
                "table",
                "--expect",
                "kind",
            ],
            '"kind"',
        ),
        (
            ["evaluations", "datasets", "create", "x", "desk", "--expect", "category"],
            "--from table",
        ),
        (
            ["evaluations", "datasets", "create", "x", "desk", "--from", "table", "--failed"],
            "--from runs",
        ),
        (["evaluations", "datasets", "show", "nothing"], 'dataset "nothing" does not exist'),
        (["evaluations", "datasets", "drop", "nothing"], 'dataset "nothing" does not exist'),
        (["evaluations", "datasets", "label", "77", '{"tools": []}'], "case 77 does not exist"),
        (["evaluations", "datasets", "label", "1", '{"value": {}}'], 'unknown key "value"'),
        (["evaluations", "datasets", "label", "1"], "--remove"),
        (["evaluations", "show", "77"], "evaluation 77 does not exist"),
        (["evaluations", "compare", "77", "78"], "evaluation 77 does not exist"),
        (["evaluations", "compare", "77", "77"], "not with itself"),
    ],
)
def test_what_is_not_there_is_named(user: User, arguments: list[str], words: str) -> None:
    """With an exit code of 2, or 1 where the database refuses."""
    execute(user, "insert into tickets (issue) values ('refund')")
    if words.startswith('dataset "golden"'):
        user.types(
            "evaluations", "datasets", "create", "golden", "desk", "--from", "table"
        ).worked()
    refused = user.types(*arguments)
    assert (refused.code != 0, refused.out) == (True, ""), refused.out
    assert words in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.slow
def test_a_login_without_the_rights_of_the_owner_replays_nothing(user: User) -> None:
    """A viewer lists what was replayed, and starts, labels and deletes nothing."""
    sorted_as(user, "refund", "billing")
    user.types("evaluations", "datasets", "create", "golden", "desk").worked()
    replayed(user)
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        name = f"viewer_{conn.info.dbname}"
        conn.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
        try:
            conn.execute("select agent.grant_viewer(%s)", [name])
            viewer = ("--dsn", f"{user.dsn} user={name}")
            listed = user.types("evaluations", "list", "--json", *viewer).worked().json
            assert len(listed) == 1
            for command in (
                ["replay", "desk"],
                ["evaluations", "datasets", "create", "x", "desk"],
                ["evaluations", "datasets", "label", "1", '{"tools": []}'],
                ["evaluations", "datasets", "drop", "golden"],
                ["evaluations", "delete", "1"],
            ):
                refused = user.types(*command, *viewer)
                assert refused.code == 3, (command, refused.err)
        finally:
            role = sql.Identifier(name)
            conn.execute(sql.SQL("drop owned by {0}; drop role {0}").format(role))


def test_merged_changes_are_replayed_together(user: User) -> None:
    """A run that debounce made of two changes is shown both, and acts on the last."""
    run = add_run(
        user, "hello", [reply("update_row", category="billing"), result("update_row", "")]
    )
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute(
            "insert into agent_internal.merged_change"
            " (attachment_id, generation, commit_lsn, ordinal, run_id, change)"
            " select attachment_id, 0, '0/1', 0, id,"
            "        jsonb_set(change, '{new,issue}', '\"refund\"') from agent.run where id = %s",
            [run],
        )
    assert replayed(user)["agreeing"] == 1


@pytest.mark.slow
def test_recorded_runs_of_a_daemon_become_a_dataset(user: User) -> None:
    """Their changes are as they were decoded."""
    record(user, 6)
    user.types("evaluations", "datasets", "create", "golden", "desk", "--expect-recorded").worked()
    done = replayed(user, "--dataset", "golden")
    assert (done["agreeing"], done["are_right"], done["were_right"]) == (6, 6, 6)
