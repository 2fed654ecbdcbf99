"""Evaluations in Chromium: the list, the cases of one, labels, and two compared."""

import asyncio
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import rows, run_all, session, until
from tests.helpers.desk import desk
from tests.helpers.people import person

pytestmark = MARKS
OUTCOME = """
create function outcome(category text, text text, tokens int, cost numeric, seconds numeric)
    returns jsonb language sql return jsonb_build_object(
        'state', case when category is null then 'failed' else 'succeeded' end,
        'result', case when category is not null then text end, 'tokens', tokens, 'cost', cost,
        'error', case when category is null then 'max_steps reached: 20 model replies' end,
        'seconds', seconds, 'calls', case when category is null then '[]' else jsonb_build_array(
            jsonb_build_object('tool', 'find_similar', 'state', 'done', 'reads', true,
                               'arguments', '{"text": "renewal"}'::jsonb),
            jsonb_build_object('tool', 'update_row', 'state', 'done', 'reads', false,
                               'arguments', jsonb_build_object('category', category))) end);
"""
# 60 cases: 31 with a label, of which the candidate is right in 29 and the recorded run in 20.
EVALUATED = """
insert into agent.dataset (name, attachment, relation, columns, source)
values ('golden', 'triage', 'public.ticket', '[]', 'runs');
insert into agent.dataset_case (dataset_id, key, change, expected, labelled_by, labelled_at)
select d.id, n::text, jsonb_build_object(
           'schema', 'public', 'table', 'ticket', 'op', 'insert', 'old', null,
           'new', jsonb_build_object(
               'id', n, 'customer_id', 4, 'status', 'open', 'category', null,
               'subject', (array['annual renewal', 'forgot my password',
                                 'R\u00fcckzahlung trotz K\u00fcndigung', 'dark mode!'])[1 + n % 4],
               'body', 'I was charged <b>twice</b> in ticket ' || n)),
       case when n < 32 then '{"values": {"category": "billing"}}'::jsonb end,
       case when n < 32 then 'ann' end, case when n < 32 then now() end
  from agent.dataset d, generate_series(1, 60) n;
insert into agent.evaluation (attachment, agent, model, planned, held_until, ended_at, dataset,
                              draft, judge, shadow, error, started_at)
select 'triage', 'triage', e.model, e.planned, now() + interval '1 hour',
       case when e.ended then now() end, e.dataset, e.draft::jsonb, e.judge, e.shadow, e.error,
       now() - e.ago::interval
  from (values
    ('next', 60, true, 'golden', '{"model": "next"}', 'large', null, null, '3 hours'),
    ('script', 2, true, null, '{"system_prompt": "Sort it."}', null, null, null, '2 hours'),
    ('next', 0, false, null, '{}', null, 7, null, '1 hour'),
    ('script', 60, true, 'golden', '{"file": "agents.yaml"}', null, null,
     'budget "month" exhausted', '40 minutes'),
    ('next', 60, false, 'golden', '{"model": "next"}', null, null, null, '0')
  ) e (model, planned, ended, dataset, draft, judge, shadow, error, ago);
create view did as
select e.id, c.id as case_id, c.key, c.expected,
       case when n <= 11 or n > 55 then 'how_to' else 'billing' end as was,
       case when n = 40 then null
            when n in (12, 13) or n between 50 and 55 or e.id = 4 and n < 5 then 'how_to'
            else 'billing' end as now
  from agent.evaluation e, agent.dataset_case c cross join lateral (select c.key::int) k (n)
 where e.id = 1 or e.id = 4 and n <= 20 or e.id = 5 and n <= 12;
insert into agent.evaluation_case (evaluation_id, number, case_id, key, recorded, candidate, agrees,
                                   expected, was_right, is_right, verdict)
select d.id, d.key::int, d.case_id, d.key, outcome(d.was, 'Sorted.', 1700, 0.0017, 1.1),
       outcome(d.now, 'A charge after cancellation, with an amount.', 402, 0.0004, 0.84)
           || jsonb_build_object(
               'changes', case when d.now <> d.was then jsonb_build_array(
                   jsonb_build_object(
                       'table', 'public.ticket', 'operation', 'update',
                       'columns', '{category}'::text[],
                       'before', jsonb_build_object('id', d.key, 'category', null),
                       'after', jsonb_build_object('id', d.key, 'category', d.now)),
                   jsonb_build_object('table', 'public.log', 'operation', 'insert',
                                      'columns', '{id,what}'::text[])) else '[]' end,
               'not_compared', '{}'::jsonb,
               'not_called', case when d.key = '1' then jsonb_build_array(jsonb_build_object(
                   'tool', 'send_mail', 'arguments',
                   '{"to": "ann@example.com", "text": "We give it back."}'::jsonb)) else '[]' end),
       d.now is not distinct from d.was, d.expected,
       case when d.expected is not null then d.was = 'billing' end,
       case when d.expected is not null then d.now is not distinct from 'billing' end,
       case when d.now <> d.was and d.id = 1 then
           '{"right": "candidate", "reason": "The row names a payment.", "cost": 0.001}'::jsonb end
  from did d;
insert into agent.evaluation_case (evaluation_id, number, run_id, key, recorded, candidate, agrees)
select 2, row_number() over (order by r.id), r.id, r.key,
       outcome('how_to', 'Sorted.', 1700, 0.0017, 1.1),
       outcome('bug', 'Sorted.', 1650, 0.0016, 1.2), false
  from agent.run r where r.state = 'succeeded' order by r.id limit 2;
insert into agent.evaluation (model, planned, held_until, ended_at)
values ('next', 3, now(), now());
insert into agent.evaluation_case (evaluation_id, number, case_id, candidate, expected, is_right)
select 6, n, n, jsonb_build_object(
           'state', 'succeeded', 'question', 'How many tickets are open, by customer?', 'run', n,
           'sql', '["select customer_id, count(*) from ticket where status = ''open'' group by 1"]'
                  ::jsonb, 'calls', '[]'::jsonb, 'tokens', 900, 'cost', 0.002, 'seconds', 2.5,
           'error', case n when 2 then '12 rows instead of 4'
                           when 3 then 'the saved statement cannot be executed' end),
       '{"sql": "select customer_id, count(*) from ticket where status <> ''closed'' group by 1"}',
       case n when 1 then true when 2 then false end
  from generate_series(1, 3) n;
"""
BETTER = (
    "The candidate is better where the answer is known: 29 of 31 right against 20 of the recorded"
    " runs (11 better, 2 worse, p = 0.0225)."
)
COMMON = (
    "20 cases in common: 16 agree, 4 differ. Too few cases tell which one is better: 18 and 14 of"
    " 20 right. 4 against 1: 0 better, 4 worse, p = 0.125."
)
LABELLED = "select exists (select from agent.dataset_case where expected -> 'values' = %s)"
ENDED = "update agent.evaluation set ended_at = now() where id = 5"
SAID = "select key, expected from agent.dataset_case where labelled_by = 'ada' order by id"


async def end_when_labelled(conn: AsyncConnection) -> None:
    """End the evaluation that runs, once the label that says bug was given."""
    await until(conn, LABELLED, '{"category": "bug"}', deadline=600)
    await conn.execute(ENDED)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_evaluations_are_read_compared_and_labelled(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Side by side, with filters in the address; labels are of later evaluations."""
    async with desk(conn, dsn, tmp_path) as started, session(dsn) as second:
        viewer = await person(conn, "vera", "viewer")
        approver = await person(conn, "ada", "viewer", "approver")
        given = {"link": started.link, "viewer": viewer, "approver": approver}
        none = await use("evaluations.mjs", **given, part="none")
        await run_all(conn, OUTCOME)
        await run_all(conn, EVALUATED)
        ending = asyncio.create_task(end_when_labelled(second))
        seen = await use("evaluations.mjs", **given, part="all")
        await ending
        said = await rows(conn, SAID)
        scored = await rows(conn, "select value::int, principal::text from agent.score")
    assert none["command"] == "walagent replay ATTACHMENT --model NAME"
    assert seen["ofAgent"] == "/evaluations?agent=triage"
    assert [each.rpartition(" $")[0] for each in seen["listed"][::4]] == [
        "5 triage next another model running 12 of 60 0 of 12 11 of 12 golden",
        "1 triage next another model finished 60 35 of 60 29 of 31 golden",
    ]
    assert "3 triage shadow next version 7 running 0" in seen["listed"][2]
    assert "4 triage script all of agents.yaml broken off 20 of 60" in seen["listed"][1]
    assert seen["verdict"] == [
        BETTER,
        "29 cases have no label: that they agree does not say that they are right.",
    ]
    assert seen["measures"] == [
        "Right, of 31 with a label 20, 65 % 47 to 79 % 29, 94 % 79 to 98 %",
        "Tokens 102,000 24,120",
        "Cost, with the judge $0.10 $0.05",
        "Time of the model, median 1.10 s 0.84 s",
    ]
    assert seen["pills"] == [
        "All 60", "Differs 25", "Right 29", "Wrong 2", "Better 11", "Worse 2", "Without label 29",
        "Failed 1",
    ]  # fmt: skip
    assert (seen["filtered"], seen["opened"]) == (
        "/evaluations/1?only=better",
        "/evaluations/1?open=1",
    )
    (failed,) = seen["failed"]
    assert failed.endswith("failed: max_steps reached: 20 model replies failed")
    assert seen["Recorded"].startswith("Recorded wrong find_similar(text => 'renewal') reads")
    assert "update_row(category => 'billing') rolled back" in seen["Candidate"]
    assert "text => 'We give it back.') not called" in seen["Candidate"]
    written = seen["Rows that it would change"]
    assert "UPDATE public.ticket category \u2212 NULL + billing" in written
    assert "INSERT public.log id, what: of other rows, values are not kept" in written
    assert "I was charged <b>twice</b> in ticket 1" in seen["row"]
    assert (seen["bold"], seen["offered"]) == (0, 0)
    assert "6 columns are hidden" in seen["theirs"]
    assert "category \u2212 hidden + hidden" in seen["theirs"]
    assert seen["said"] == ["category how_to", "tools update_row"]
    assert seen["ended"][0].startswith("The candidate is better where the answer is known: 11 of")
    assert "no case has a label" in seen["unsure"][0]
    assert said == [
        ("2", {"values": {"category": "bug"}}),
        ("3", {"tools": ["update_row"], "values": {"category": "billing"}}),
    ]
    assert scored == [(1, "ada")]
    assert seen["asked"] == [
        "1 How many tickets are open, by customer?",
        "2 How many tickets are open, by customer?",
        "3 How many tickets are open, by customer?",
    ]
    assert "12 rows instead of 4" in seen["question"]
    assert "where status <> 'closed'" in seen["question"]
    assert seen["others"][0] == "none"
    assert seen["compared"] == "/evaluations/1?with=4"
    assert seen["common"] == [
        COMMON,
        "Other cases, not compared: 40 of evaluation 1.",
    ]
    assert len(seen["pairs"]) == 4
    assert (seen["axe"], seen["wide"], seen["dialogs"]) == ([], [], 0)
