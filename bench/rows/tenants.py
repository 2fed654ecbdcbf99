"""Runs a second of a runner that row-level security applies to, beside one without policies."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import psycopg

from bench import workload
from bench.harness import OURS, Figure, Row, rates
from bench.ours.prepare import attach, queue_runs, scripted
from bench.scripts import run_script
from bench.server import Place

_COUNT = 3000
_SLOTS = 20
_RUNNER = """\
do $$
begin
    if not exists (select from pg_roles where rolname = 'bench_runner') then
        create role bench_runner login noinherit;
    end if;
    -- Only a superuser's worker creates it by itself.
    execute (select format('create role walagent_tools_%s login', oid)
               from pg_database where datname = current_database());
end $$;
grant postgres to bench_runner;  -- the role of the tools, which have no part in this
select agent.grant_runner('bench_runner');
insert into agent.tenant (name) select 'tenant' || n from generate_series(1, 100) n;"""
_NO_POLICIES = """\
do $$
declare _table regclass;
begin
    for _table in select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relrowsecurity and n.nspname in ('agent', 'agent_internal') loop
        execute format('alter table %s disable row level security', _table);
    end loop;
end $$"""


def drain(place: Place, *, policies: bool = True) -> Mapping[str, Any]:
    """Runs of one reply, by a login that owns nothing."""
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers, also=[_RUNNER])
        queue_runs(place.url, _COUNT)
        if not policies:
            with psycopg.connect(place.url, autocommit=True) as conn:
                conn.execute(_NO_POLICIES)
        result = run_script(
            "ours/drain",
            *("--url", place.url.replace("//postgres@", "//bench_runner@")),
            *("--postmaster", place.postmaster, "--count", _COUNT, "--slots", _SLOTS),
        )
    return rates(result)


ROW = Row(
    what="runs of one reply a second, 100 tenants, as a runner under row-level security",
    beside="the same with every policy switched off",
    sides={OURS: drain, "no policies": partial(drain, policies=False)},
    figures=(
        Figure("per_second", over="no policies", goal=0.9),
        Figure("server_cpu_ms", over="no policies", more_is_better=False),
    ),
)
