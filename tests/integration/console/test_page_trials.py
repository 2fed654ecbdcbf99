"""Agents are tried on the console's page: by whom, what is shown, and that nothing stays."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import role, rows, run_all, session, until, value
from tests.helpers.people import person, token_of
from walagent.app.console import make_api
from walagent.config import Config
from walagent.config.dsn import Logins, Places
from walagent.config.sections import Http
from walagent.console.trials import MayTry, PageTrials
from walagent.domain.attachment import Attachment
from walagent.errors import PreconditionError
from walagent.http.exchange import RefusedError
from walagent.http.server import listen, serve_on
from walagent.message import Json
from walagent.store import trials
from walagent.store.sessions.connections import connect
from walagent.sync.asgi import Receive, Scope, Send

TABLES = """
create table ticket (id bigint, part text, issue text, category text, secret text default 'hidden',
                     primary key (id, part));
create table audit (ticket bigint, what text);
create table mine (ticket bigint primary key, who name);
alter table mine enable row level security;
create policy all_of_it on mine using (true);
create function note() returns trigger language plpgsql security definer as $$
begin
    insert into audit values (new.id, new.category);
    insert into mine values (new.id, 'x');
    return null;
end $$;
create trigger note after update on ticket for each row execute function note();
insert into ticket values (1, 'a', 'refund me', null), (2, 'b''c', 'forgot it', null);
"""
SCRIPT = """
usage: {input_tokens: 900, output_tokens: 100}
replies:
  - - {call: update_row, arguments: {category: how_to}}
  - How to.
"""
MODEL = """
insert into agent.model (name, provider, model_id, base_url, input_price, output_price)
values (%s, 'scripted', 'script', %s, 1, 10)
"""
ATTACH = """
select agent.attach('ticket', 'name=triage, model=script, columns=[id, part, issue, category],
    writes=[category], tools=[update_row], system_prompt="Sort it."')
"""
LEFT = """
select (select jsonb_agg(to_jsonb(t)) from ticket t), (select count(*) from audit),
       (select count(*) from agent.run), (select jsonb_agg(to_jsonb(g)) from agent.agent g),
       (select jsonb_agg(to_jsonb(a)) from agent.attachment a)
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """Trials over a database, and tokens by name."""

    dsn: str
    trials: PageTrials
    tokens: dict[str, str]
    login: str

    async def may(self, who: str, attachment: str = "triage") -> MayTry:
        """Check whether a person may."""
        async with session(self.dsn) as acting, acting.transaction():
            await acting.execute("select agent.act_as(%s)", (self.tokens[who],))
            return await self.trials.check(acting, attachment)

    async def refusal(self, who: str, attachment: str = "triage") -> RefusedError:
        """Return why a person may not."""
        with pytest.raises(RefusedError) as refused:
            await self.may(who, attachment)
        return refused.value


def _trials(dsn: str) -> PageTrials:
    return PageTrials(Logins(Places(dsn, dsn)), Config())


class _Engine:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        async with await connect(self._dsn, application="walagent sync") as found:
            yield found


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(scope["path"])


@asynccontextmanager
async def _served(dsn: str, trials: PageTrials) -> AsyncIterator[str]:
    api = make_api(_Engine(dsn), _nothing, Http(), trials=trials)
    sockets = await listen("127.0.0.1", 0)
    task = asyncio.create_task(serve_on(api, sockets))
    yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    task.cancel()
    await asyncio.wait({task})


@asynccontextmanager
async def bench(
    conn: AsyncConnection, dsn: str, folder: Path, tenant: str = "default"
) -> AsyncIterator[Bench]:
    """An attachment of a tenant, attached by the login of ann."""
    (folder / "replies.yaml").write_text(SCRIPT)
    (folder / "billing.yaml").write_text(SCRIPT.replace("how_to", "billing"))
    await run_all(conn, TABLES)
    for model, file in (("script", "replies.yaml"), ("other", "billing.yaml")):
        await conn.execute(MODEL, (model, str(folder / file)))
    async with role(conn) as login:
        tokens = {
            "ann": await person(conn, "ann", "developer", tenant=tenant),
            "vic": await person(conn, "vic", "viewer", "approver", tenant=tenant),
            "dan": await person(conn, "dan", "developer", tenant=tenant),
            "eve": await person(conn, "eve", "developer", tenant=tenant),
            "bob": await person(conn, "bob", "admin", tenant="b"),
        }
        tokens["read"] = await token_of(conn, "ann", "read", tenant=tenant)
        async with role(conn) as other:
            await run_all(
                conn,
                f"select agent.grant_developer('{login}'); select agent.grant_developer('{other}');"
                f"grant select (id, part, issue, category), update (category) on ticket to {login};"
                f"grant select on mine to {login};"
                f"update agent.principal set login = '{login}' where name = 'ann';"
                f"update agent.principal set login = '{other}' where name = 'eve'",
            )
            async with conn.transaction():
                await conn.execute("select agent.act_as(%s)", (tokens["ann"],))
                await run_all(conn, f"set local role {login}")
                await run_all(conn, ATTACH)
            yield Bench(dsn, _trials(dsn), tokens, login)
            await run_all(conn, "update agent.principal set login = null")
            await run_all(conn, "delete from agent.attachment; delete from agent.agent")


@pytest.mark.few(1)
@pytest.mark.parametrize("tenant", ["default", "a"])
async def test_a_draft_is_tried_and_nothing_stays(
    conn: AsyncConnection, dsn: str, tmp_path: Path, tenant: str
) -> None:
    """Rows before and after, as the attachment is and with the draft; then all is as it was."""
    async with bench(conn, dsn, tmp_path, tenant) as found:
        before = await rows(conn, LEFT)
        may = await found.may("ann")
        listed: Any = await found.trials.rows(may)
        assert listed["table"] == "public.ticket"
        assert listed["run_as"] == found.login
        assert float(listed["first_cost"]) > 0
        assert [each["at"] for each in listed["rows"]] == [
            {"id": "2", "part": "b'c"},
            {"id": "1", "part": "a"},
        ]
        assert "hidden" not in str(listed)
        categories = list[str]()
        for draft in ({}, {"model": "other", "system_prompt": "Sort.", "max_steps": "4"}):
            tried: Any = await found.trials.run(may, listed["rows"][0]["at"], draft, approved=False)
            assert tried["run"]["state"] == "succeeded", tried
            assert tried["run"]["cost"] > 0
            (change,) = [each for each in tried["changes"] if each["table"] == "public.ticket"]
            assert change["before"]["category"] is None
            assert "secret" not in change["after"]
            categories.append(change["after"]["category"])
            # What triggers wrote where the role of the agent cannot read is named alone.
            assert {*tried["not_compared"]} == {"public.audit", "public.mine"}
            assert "hidden" not in str(tried)
        assert categories == ["how_to", "billing"]
        assert await rows(conn, LEFT) == before


async def test_who_could_not_publish_tries_nothing(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Each lacks something else; what is missing is named."""
    async with bench(conn, dsn, tmp_path) as found:
        for who, text in (
            ("vic", "role developer"),
            ("read", "role developer"),
            ("dan", "has no login"),
            ("eve", "is no member"),
        ):
            refused = await found.refusal(who)
            assert refused.status == 403
            assert text in str(refused), who
            assert refused.hint
        assert (await found.refusal("bob")).status == 404  # of another tenant
        assert (await found.refusal("ann", "none")).status == 404


async def test_a_role_that_the_login_has_left_is_not_read(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A trial shows what the role of the agent reads: who is no longer its member sees nothing."""
    async with bench(conn, dsn, tmp_path) as found, role(conn, "nologin") as worker:
        await run_all(
            conn,
            f"grant {worker} to {found.login};"
            f"grant select (id, part, issue, category), update (category) on ticket to {worker};"
            f"set role {found.login};"
            f"update agent.attachment set run_as = '{worker}';"
            f"reset role",
        )
        await found.may("ann")
        await run_all(conn, f"revoke {worker} from {found.login}")
        assert worker in str(await found.refusal("ann"))
        await run_all(conn, "delete from agent.attachment")


async def test_trials_need_the_owner(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """A daemon with another login says so before anything is called."""
    async with bench(conn, dsn, tmp_path) as found, role(conn) as daemon:
        await run_all(
            conn, f"select agent.grant_runner('{daemon}'); select agent.grant_member('{daemon}')"
        )
        async with session(make_conninfo(dsn, user=daemon)) as acting, acting.transaction():
            await acting.execute("select agent.act_as(%s)", (found.tokens["ann"],))
            with pytest.raises(RefusedError, match="owns walagent's schema"):
                await found.trials.check(acting, "triage")


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "bad",
    [
        ({}, {}, "primary key"),
        ({"id": "1"}, {}, "primary key: id, part"),
        ({"id": "1", "part": "a", "secret": "x"}, {}, "primary key"),
        ({"id": "9", "part": "a"}, {}, "does not exist"),
        ({"id": "1 or true", "part": "a"}, {}, "invalid input syntax"),
        ({"id": "1", "part": "' or true --"}, {}, "does not exist"),
        ({"id": "1", "part": "a"}, {"tools": ["query"]}, 'no "tools"'),
        ({"id": "1", "part": "a"}, {"model": "none"}, 'model "none" does not exist'),
        ({"id": "1", "part": "a"}, {"max_steps": "many"}, "max_steps: must be an integer"),
        ({"id": "1", "part": "a"}, {"max_steps": "-1"}, "max_steps"),
    ],
)
async def test_bad_requests_are_named_and_change_nothing(
    conn: AsyncConnection,
    dsn: str,
    tmp_path: Path,
    bad: tuple[dict[str, str], dict[str, Json], str],
) -> None:
    """Rows that are none, columns that a draft has not, values that are none."""
    async with bench(conn, dsn, tmp_path) as found:
        at, draft, text = bad
        before = await rows(conn, LEFT)
        may = await found.may("ann")
        with pytest.raises(Exception, match=text):
            await found.trials.run(may, at, draft, approved=False)
        assert await rows(conn, LEFT) == before
        assert await value(conn, "select count(*) from agent_internal.trial") == 0


@pytest.mark.slow
async def test_who_goes_away_pays_for_no_further_call(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The trial ends with the request, rolls back, and makes room for the next."""
    async with bench(conn, dsn, tmp_path) as found, _served(dsn, found.trials) as url:
        (tmp_path / "replies.yaml").write_text(f"latency: 120{SCRIPT}")
        headers = {
            "authorization": f"Bearer {found.tokens['ann']}",
            "x-walagent-request": "1",
            "content-type": "application/json",
        }
        body = {"attachment": "triage", "at": {"id": "1", "part": "a"}, "draft": None}
        trying = "select count(*) from pg_stat_activity where application_name = 'walagent try'"
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            request = asyncio.create_task(client.post("/v1/try", json=body, timeout=60))
            await until(conn, f"select ({trying}) = 2")
            request.cancel()
            await asyncio.wait({request})
        await until(conn, f"select ({trying}) = 0")
        (tmp_path / "replies.yaml").write_text(SCRIPT)
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            answer = await client.post("/v1/try", json=body, timeout=60)
            assert answer.json()["run"]["state"] == "succeeded"
            for bad in ({"attachment": 1}, {"attachment": "triage"}, {**body, "draft": []}):
                assert (await client.post("/v1/try", json=bad)).status_code == 400
            assert (await client.get("/v1/try?attachment=none")).status_code == 404
            client.headers["authorization"] = f"Bearer {found.tokens['vic']}"
            assert (await client.post("/v1/try", json=body)).status_code == 403
            assert (await client.get("/v1/try?attachment=triage")).status_code == 403


async def test_a_trial_acts_in_the_tenant_of_its_attachment(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Whose rows its tools see, whoever's session it is."""
    async with bench(conn, dsn, tmp_path, "a"):
        (attached,) = await rows(conn, "select definition from agent.attachment")
        async with conn.transaction(force_rollback=True):
            await trials.begin_trial(conn)
            change = {"op": "insert", "new": {"id": "1", "part": "a"}}
            found = Attachment.from_json(attached[0])
            claim = await trials.start_run(conn, found, {"change": change})
            assert claim.tenant == "a"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("named", "refused"),
    [("a", ""), ("b", 'it is of tenant "b"'), ("", "names no tenant"), ("c", "does not exist")],
)
async def test_a_row_of_another_tenant_is_not_tried(
    conn: AsyncConnection, dsn: str, tmp_path: Path, named: str, refused: str
) -> None:
    """Its run would be that tenant's, and its steps are no business of who tries."""
    async with bench(conn, dsn, tmp_path, "a") as found:
        await run_all(
            conn,
            f"alter table ticket add column customer text default '{named}';"
            f"grant select (customer) on ticket to {found.login};"
            "update agent.attachment set tenant_column = 'customer'",
        )
        may = await found.may("ann")
        listed: Any = await found.trials.rows(may)
        assert bool(float(listed["first_cost"])) is not bool(refused)
        at = listed["rows"][0]["at"]
        if refused:
            with pytest.raises(PreconditionError, match=refused):
                await found.trials.run(may, at, {}, approved=False)
        else:
            tried: Any = await found.trials.run(may, at, {}, approved=False)
            assert tried["run"]["state"] == "succeeded"


async def test_a_policy_that_asks_for_the_login_is_not_tried(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The login of the session is the daemon's, which sees what ann's login does not."""
    async with bench(conn, dsn, tmp_path) as found, role(conn, "nologin") as boss:
        await run_all(
            conn,
            "alter table ticket enable row level security; create policy bosses on ticket"
            f" using (pg_has_role(session_user, '{boss}', 'member'))",
        )
        refused = await found.refusal("ann")
        assert refused.status == 403
        assert "session_user" in str(refused)
        await run_all(conn, "drop policy bosses on ticket")
