"""Code of others in the row filter of a publication, which the owner of the publications parses."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import as_role, refused, role, rows, run_all, value

SCENE = """
create table public.t (id int primary key, n int);
create function public.note(text) returns boolean language plpgsql as $$
begin
    raise notice 'executed as %', current_user;
    return true;
end $$;
create domain public.checked as text check (public.note(value));
create type public.holder as (inside public.checked);
create domain public.numbers as int[] check (public.note('numbers'));
"""
ATTACH = """
select agent.attach('t'::regclass, 'gpt-4o', ops => '{insert}', server_filter => true,
                    condition => %s)
"""


@pytest.mark.parametrize(
    "literal",
    [
        "'{zz}'::public.checked[] is not null",
        "array['zz'::public.checked] is not null",
        "'(zz)'::public.holder is not null",
        "row('zz')::public.holder is not null",
        "new.n::text::public.checked[] is not null",
        "new.n = any ('{1}'::public.numbers)",
        "null::public.holder is null",
    ],
)
async def test_no_filter_has_a_type_whose_input_runs_code_of_others(
    conn: AsyncConnection, literal: str
) -> None:
    """Parsing the literal of a domain executes its check, with the rights of who parses."""
    said: list[str] = []
    conn.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    await run_all(conn, SCENE)
    async with role(conn) as author:
        await run_all(conn, f"select agent.grant_developer('{author}')")
        await run_all(conn, f"alter table t owner to {author}; grant {author} to current_user")
        async with as_role(conn, author):
            condition = f"new.n > 3 and {literal}"
            await refused(conn, ATTACH, condition, state="WA012")
        assert {line for line in said if "executed" in line} <= {f"executed as {author}"}
        assert await rows(conn, "select * from pg_publication_tables where tablename = 't'") == []
        async with as_role(conn, author):
            assert await value(conn, ATTACH, "new.n > 3")
