"""`walagent run` as a process, with a support desk: calls that wait, runs that fail, and a link."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from tests.helpers.commands import Running, run_command, running
from tests.helpers.database import DEADLINE, column, run_all, until

SOURCE = Path(__file__).parents[2] / "src"
TABLES = """
create table ticket (
    id bigint primary key generated always as identity,
    customer_id bigint not null default 4,
    subject text not null,
    body text not null default '',
    category text,
    status text not null default 'open'
);
create function refund_customer(ticket_id bigint, amount numeric) returns text
    language plpgsql as $$
begin
    if amount > 900 then
        raise exception 'amount % is above the payment', amount using errcode = '23514';
    end if;
    update ticket set status = 'refunded' where id = ticket_id;
    return amount || ' EUR given back';
end $$;
comment on function refund_customer(bigint, numeric) is 'Give a payment back.';
create function page_engineer(ticket_id bigint) returns text language plpgsql as $$
begin
    raise exception 'permission denied for table rota' using errcode = '42501';
end $$;
comment on function page_engineer(bigint) is 'Call the engineer on duty.';
"""
SCRIPT = """
usage: {input_tokens: 1612, output_tokens: 134}
rules:
  - match: outage
    replies:
      - - Production is down for this customer.
        - call: page_engineer
          arguments: {}
      - fault: {status: 400}
  - match: a claim of
    replies:
      - - Below the limit of goodwill.
        - {call: refund_customer, arguments: {amount: 12.50}}
      - The decision was carried out.
  - match: a smaller claim
    replies:
      - - Below the limit of goodwill.
        - {call: refund_customer, arguments: {amount: 9.99}}
      - The decision was carried out.
  - match: annual renewal
    replies:
      - - The customer was charged after switching renewal off and asks for the payment back.
        - {call: update_row, arguments: {category: billing}}
        - {call: refund_customer, arguments: {amount: 348.00}}
      - The decision was carried out.
replies:
  - - {call: update_row, arguments: {category: how_to}}
  - Sorted into how_to.
"""
FILE = """
models:
  script: {{provider: scripted, model_id: script, base_url: '{folder}/replies.yaml',
           input_price: 0.8, output_price: 4}}
replication: {{slot: {slot}}}
"""
ATTACH = """
select agent.attach('ticket', 'name=triage, model=script, on=insert, writes=[category],
    corrections=true, tools=[update_row, refund_customer, page_engineer],
    approve=[refund_customer], bind=[ticket_id=id], system_prompt="You work at the
    support desk of Harbour. For each new ticket, set its category with update_row, and call the
    one other tool that fits best."')
"""
SUBJECTS = (
    "annual renewal", "forgot my password", "annual renewal, again", "production outage",
    "archive vs delete", "<script>alert(1)</script>", "outage of the API", "dark mode",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Desk:
    """A running daemon, where it is served, and how to run commands beside it."""

    url: str
    link: str
    process: Running
    folder: Path
    dsn: str

    async def command(self, *arguments: str) -> str:
        """Run a command of walagent; return what it printed."""
        ended = await asyncio.to_thread(
            run_command,
            [*arguments, "--dsn", self.dsn],
            folder=self.folder,
            environment=_environment(self.folder),
            patience=DEADLINE,
        )
        assert ended.code == 0, ended.err
        return ended.out.strip()

    @asynccontextmanager
    async def started_again(self) -> AsyncIterator[None]:
        """Start the daemon at the same address, after it has ended."""
        port = self.url.rpartition(":")[2]
        async with running(
            *("run", "--dsn", self.dsn, "--http", port),
            folder=self.folder,
            environment=_environment(self.folder),
        ):
            yield


def _environment(folder: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    return kept | {"HOME": str(folder), "PYTHONPATH": str(SOURCE)}


@asynccontextmanager
async def desk(
    conn: AsyncConnection, dsn: str, folder: Path, more: str = ""
) -> AsyncIterator[Desk]:
    """Start the daemon on a database of the test, write tickets, and wait for their runs.

    Args:
        more: of its file.
    """
    (folder / "replies.yaml").write_text(SCRIPT)
    slot = conninfo_to_dict(dsn)["dbname"]
    (folder / "agents.yaml").write_text(FILE.format(folder=folder, slot=slot) + more)
    await run_all(conn, TABLES)
    async with running(
        *("run", "--dsn", dsn, "--http", "0", "--link"),
        folder=folder,
        environment=_environment(folder),
        read=["stdout"],
    ) as process:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), DEADLINE)).decode().strip()
        assert line.startswith("console: "), line
        link = line.removeprefix("console: ")
        await run_all(conn, ATTACH)
        await until(conn, "select bool_and(active_from is not null) from agent.attachment_version")
        for subject in SUBJECTS:
            await conn.execute("insert into ticket (subject) values (%s)", (subject,))
        await until(conn, f"select count(*) = {len(SUBJECTS)} from agent.run where {_SETTLED}")
        yield Desk(link.partition("/sign-in")[0], link, process, folder, dsn)


_SETTLED = "state in ('succeeded', 'failed', 'dead', 'waiting_approval')"


async def states(conn: AsyncConnection) -> list[object]:
    """Return the states of the runs, oldest first."""
    return [*await column(conn, "select state::text from agent.run order by id")]
