"""A provider of models as a process of its own, which notes what it is asked.

    python -m tests.faults.rig.provider HOST PORT SCRIPT NOTES

It speaks OpenAI's protocol and follows a script; each question is a line of JSON in NOTES: which
change it is about, and how many replies that run had had.  `asked_as_promised` puts them beside
the steps and asks in SQL what was asked more often than it was stored.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from psycopg import AsyncConnection

from tests.faults.rig.processes import Process, free_port
from tests.faults.rig.stage import Place, script_of, set_latency
from tests.faults.rig.waiting import fetch, until_true
from walagent.domain.untrusted import unframed
from walagent.message import Request, Text
from walagent.testing import Answer, FakeProvider, Rule, Script, read_script


class Provider(Process):
    """The process, as a test sees it."""

    def __init__(
        self,
        place: Place,
        host: str = "127.0.0.1",
        *,
        latency: float = 0.0,
        inside: Sequence[str] = (),
    ) -> None:
        """Start it with the place's script.

        Args:
            latency: seconds before each answer.
            inside: a command that runs another one elsewhere; see `rig.network`.
        """
        set_latency(place, latency)
        self.notes = place.folder / "asked"
        self.notes.touch()
        port = free_port()
        self.url = f"http://{host}:{port}/v1"
        words = [host, str(port), str(script_of(place, "script")), str(self.notes)]
        command = [*inside, sys.executable, "-m", "tests.faults.rig.provider", *words]
        super().__init__(place.folder / "provider.log", command, {})

    async def is_up(self) -> None:
        """Wait until it listens."""

        async def listens() -> bool:
            self.is_alive()
            return "listening" in self.said

        await until_true(listens, "the provider listens")

    @property
    def asked(self) -> list[dict[str, Any]]:
        """What it has been asked so far."""
        text = self.notes.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


# What is asked of the database, beside what was asked of the provider.

_MAKE = """
create table if not exists asked (
    tab text not null, op text not null, id bigint not null, version integer,
    place integer not null);
create table if not exists excused (run bigint not null, place integer not null)
"""
# A question counts as often as runs of its change have stored a reply at its place; more often
# only where a process died while such a run had no reply there yet.
_ASKED_TOO_OFTEN = """
with step as (
    select r.id as run, r.change ->> 'table' as tab, r.change ->> 'op' as op,
           coalesce(r.change -> 'new', r.change -> 'old') as row,
           row_number() over (partition by r.id order by s.seq) - 1 as place
      from agent.run r join agent.step s on s.run_id = r.id and s.kind = 'reply'
), stored as (
    select tab, op, (row ->> 'id')::bigint as id, (row ->> 'version')::integer as version, place,
           count(*) as n,
           sum((select count(*) from excused e where e.run = step.run and e.place = step.place))
               as excuses
      from step group by 1, 2, 3, 4, 5
), questions as (
    select tab, op, id, version, place, count(*) as n from asked group by 1, 2, 3, 4, 5
)
select q.tab, q.op, q.id, q.version, q.place, q.n as asked, s.n as stored, s.excuses
  from questions q
       full join stored s
            on (s.tab, s.op, s.id, s.place) = (q.tab, q.op, q.id, q.place)
               and s.version is not distinct from q.version
 where q.n is null or s.n is null or q.n < s.n or q.n > s.n + s.excuses
 limit 20
"""
_IN_WORK = """
insert into excused
select id, (select count(*) from agent.step where run_id = id and kind = 'reply')
  from agent.run where state = 'running'
returning 1
"""
_STORED = "select count(*) from agent.step where kind = 'reply'"


async def excuse(conn: AsyncConnection[Any]) -> None:
    """A process has died: what its runs were waiting for may be asked once more."""
    await conn.execute(_MAKE.encode())
    await conn.execute(_IN_WORK.encode())


async def asked_as_promised(conn: AsyncConnection[Any], provider: Provider) -> int:
    """See that nothing was asked again that was stored; return how many answers were."""
    await conn.execute(_MAKE.encode())
    asked = provider.asked
    async with conn.cursor() as cursor, cursor.copy("copy asked from stdin") as copy:
        for each in asked:
            await copy.write_row(
                [each["tab"], each["op"], each["id"], each["version"], each["place"]]
            )
    wrong = await fetch(conn, _ASKED_TOO_OFTEN)
    assert not wrong, f"(change, place, asked, stored, excused): {wrong}"
    ((stored,),) = await fetch(conn, _STORED)
    return len(asked) - stored


# The process itself.


class Noting:
    """Writes down what is asked, then lets the script answer."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def script(self, script: Script) -> Script:
        """The same script, with its questions noted."""
        rules = [Rule(rule.match, [self._noted(a) for a in rule.replies]) for rule in script.rules]
        return replace(script, replies=[self._noted(a) for a in script.replies], rules=rules)

    def _noted(self, answer: Answer) -> Answer:
        def answering(request: Request) -> Answer:
            self._file.write(json.dumps(about(request)) + "\n")
            self._file.flush()
            return answer

        return answering


def about(request: Request) -> dict[str, Any]:
    """Say which change a request is about, and how many replies its run has had."""
    block = next(
        found
        for message in request.messages
        for part in message.parts
        if isinstance(part, Text) and (found := unframed("change", part.text)) is not None
    )
    shown = orjson.loads(block)
    change = shown[0] if isinstance(shown, list) else shown
    row = change.get("new") or change["old"]
    replies = sum(message.role == "assistant" for message in request.messages)
    return {
        "tab": change["table"],
        "op": change["op"],
        "id": row["id"],
        "version": row.get("version"),
        "place": replies,
    }


async def _serve(host: str, port: str, script: str, notes: str) -> None:
    noting = Noting(Path(notes))
    provider = FakeProvider.of(noting.script(read_script(Path(script))), keep=False)
    await provider.start(int(port), host)
    sys.stderr.write("listening\n")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
