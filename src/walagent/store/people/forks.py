"""What a fork of a run would be: it is made in a transaction that is rolled back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.domain.transcript import FORK
from walagent.message import Json
from walagent.store.people.operator import Change, fork

Connection = AsyncConnection[Any]
_Row = Mapping[str, Any]

_NUMBERS: Final = frozenset({"version", "agent_version"})  # of versions: they differ in any case
_STEPS: Final = """
select run_id, seq, kind, content from agent.step where run_id = any (%s) order by run_id, seq
"""
_VERSIONS: Final = """
select r.id, r.attachment_version as version, coalesce(v.definition, '{}') as definition
  from agent.run r
       left join agent.attachment_version v
         on v.attachment_id = r.attachment_id and v.version = r.attachment_version
 where r.id = any (%s)
"""
_CHANGED: Final = """
select c.step, sum(c.rows)::bigint as rows
  from agent.row_change c where c.run_id = %s and c.step is not null group by c.step
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """A step that the fork has from the run; name: of its tool, of a result."""

    step: int
    kind: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Again:
    """A call of the run that succeeded, and that the fork does not keep.

    Args:
        rows: that it changed, as far as it is recorded.
    """

    step: int
    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class Difference:
    """What the fork has in the place of what the run has, and in which step first."""

    step: int
    what: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a fork would be.

    Args:
        begins: "reply": the model is asked; "written": a reply of a person is carried out; "call":
            a call is made again.
        call: the tool of that call.
        approval: whether the call waits for approval.
        version: of the attachment; None: it has none.
        again: what can be done a second time, in order.
        differs: the first step of each difference, in order; none: it begins as the run went on.
    """

    run: int
    step: int
    kept: Sequence[Kept]
    begins: str
    call: str | None
    approval: bool
    version: int | None
    again: Sequence[Again]
    differs: Sequence[Difference]

    def to_json(self) -> dict[str, Json]:
        """Write it as a document."""
        return asdict(self)


async def preview(conn: Connection, run: int, step: int, change: Change) -> Preview:
    """Return what `fork` would make; nothing is kept, and no worker sees it.

    Raises:
        WalagentError: as `fork`: it would be refused.
    """
    cursor = conn.cursor(row_factory=dict_row)
    async with conn.transaction(force_rollback=True):
        made = await fork(conn, run, step, change)
        await cursor.execute(_STEPS, [[run, made]])
        steps = await cursor.fetchall()
        await cursor.execute(_VERSIONS, [[run, made]])
        versions = {row["id"]: row for row in await cursor.fetchall()}
        await cursor.execute(_CHANGED, [run])
        changed = {row["step"]: row["rows"] for row in await cursor.fetchall()}
    old = [row for row in steps if row["run_id"] == run]
    new = [row for row in steps if row["run_id"] == made]
    return _compared(old, new, step, versions[run], versions[made], changed)


def _compared(  # noqa: PLR0913, PLR0917 - both runs, and what is known of them
    old: Sequence[_Row], new: Sequence[_Row], step: int,
    was: _Row, now: _Row, changed: Mapping[int, int],
) -> Preview:  # fmt: skip
    at = next(n for n, row in enumerate(new) if _is_fork(row))
    cut = new[at]["seq"]
    start = next(row for row in old if row["seq"] == step)
    call = None if start["kind"] == "reply" else _call_name(old, start)
    tools: Sequence[_Row] = _definition(now).get("tools", ())
    return Preview(
        run=old[0]["run_id"],
        step=step,
        kept=[Kept(row["seq"], row["kind"], row["content"].get("name")) for row in new[:at]],
        begins="call" if call else "written" if new[at + 1 :] else "reply",
        call=call,
        approval=any(tool["name"] == call and tool.get("approval") for tool in tools),
        version=now["version"],
        again=[
            Again(row["seq"], row["content"]["name"], changed.get(row["seq"], 0))
            for row in old
            if row["seq"] >= cut and row["kind"] == "result" and not row["content"]["is_error"]
        ],
        differs=sorted(_differences(old, new, at, was, now), key=lambda each: each.step),
    )


def _definition(version: _Row) -> _Row:
    """Return what a run was pinned to; {}: it is gone."""
    found: _Row | None = version["definition"]
    return found or {}


def _is_fork(row: _Row) -> bool:
    """Whether a step is the note of this fork: kept ones, of forks before, are steps of the run."""
    return row["kind"] == "note" and FORK in row["content"] and "kept" not in row["content"]


def _call_name(old: Sequence[_Row], start: _Row) -> str | None:
    call = start["content"]["call_id"]
    for row in reversed(old[: start["seq"]]):
        for part in row["content"].get("parts", ()) if row["kind"] == "reply" else ():
            if part.get("call") == call:
                return part["name"]
    return None


def _differences(
    old: Sequence[_Row], new: Sequence[_Row], at: int, was: _Row, now: _Row
) -> Iterator[Difference]:
    for before, kept in zip(old, new[:at], strict=False):
        if {**before["content"], "kept": True} != kept["content"]:
            yield Difference(kept["seq"], "other arguments of the call")
    cut, note = new[at]["seq"], new[at]["content"]
    if "prompt" in note:
        yield Difference(cut, "another system prompt")
    if new[at + 1 :]:
        yield Difference(cut, f"a reply of {note['by']} in place of the model's")
    first, second = _definition(was), _definition(now)
    keys = sorted(
        key
        for key in (first.keys() | second.keys()) - _NUMBERS
        if first.get(key) != second.get(key)
    )
    if keys:
        yield Difference(cut, f"version {now['version']} of the attachment: {', '.join(keys)}")
