"""Let PostgreSQL evaluate conditions on decoded rows.

The values have the types that the columns had at the change, so collations, NULL and casts work as
usual even if the table has changed since.  Rows are given by columns, as texts, which is fast; or
as documents, which can lack values, and whose values no user-defined cast reads.  A caller chooses
the role of a statement, and what an error means.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, cast

from walagent.postgres.quoting import quote_name

Texts = tuple[str | None, ...]
_AT_ONCE: Final = 10_000  # rows
_DOCUMENTS: Final = "($2)[1]::jsonb"


@dataclass(frozen=True, slots=True)
class Lookup:
    """How the current row of a change is found.

    Args:
        key: the columns of its key, with their current types.
    """

    relation: int
    table: tuple[str, str]
    key: Mapping[str, str]


def by_columns(
    conditions: Sequence[str],
    types: Mapping[str, str],
    sides: Mapping[str, bool] = {"new": True},
) -> bytes:
    """Compose the statement that `true_rows` executes.

    The conditions are no part of a WHERE, where the planner could take them apart and change the
    order in which they are evaluated; OFFSET keeps each from being evaluated twice.

    Args:
        conditions: over the *sides*, or over the columns alone if there is one side.
        types: of the columns that the conditions read; at least one.
        sides: whether their texts are given; else they are NULL.
    """
    given = [f"c{n}" for n in range(len(types) * sum(sides.values()))]
    arrays = ", ".join(f"($2)[{n} * size.n + 1 : {n + 1} * size.n]" for n in range(len(given)))
    names = iter(given)
    rows = " cross join ".join(
        _cast(side, types, names if is_given else None) for side, is_given in sides.items()
    )
    verdict, letters, is_true = f"({conditions[0]})", "'t'", "verdict"
    if len(conditions) > 1:
        verdict = f"array[({'), ('.join(conditions)})]"
        letters, is_true = "array_to_string(verdict, '', 'f')", "true = any (verdict)"
    return (
        f"select string_agg(n || ':' || {letters}, ',')\n"  # noqa: S608 - checked conditions
        "  from (select given.n, found.verdict\n"
        f"          from (select cardinality($2) / {len(given)}) as size (n)\n"
        f"               cross join lateral unnest({arrays})\n"
        f"                          with ordinality as given ({', '.join(given)}, n)\n"
        f"               cross join lateral (select {verdict}\n"
        f"                                     from {rows}) as found (verdict)\n"
        "        offset 0) as evaluated\n"
        f" where {is_true}"
    ).encode()


def _cast(side: str, types: Mapping[str, str], given: Iterator[str] | None) -> str:
    cells = ", ".join(
        f"{'null' if given is None else f'given.{next(given)}'}::{kind} as {quote_name(name)}"
        for name, kind in types.items()
    )
    return f"(select {cells}) as {side}"


async def true_rows(
    read: Callable[[bytes], Awaitable[str | None]], rows: Iterable[Texts], count: int = 1
) -> list[set[Texts]]:
    """Return for each condition of a statement `by_columns` the rows for which it is true.

    Args:
        read: executes the statement on texts.
        rows: the texts of the columns, side by side.
        count: of the conditions.
    """
    distinct = list(dict.fromkeys(rows))
    found = [set[Texts]() for _ in range(count)]
    for at in range(0, len(distinct), _AT_ONCE):
        some = distinct[at : at + _AT_ONCE]
        answer = await read(array(list(chain.from_iterable(zip(*some, strict=True)))))
        for part in answer.split(",") if answer else ():
            number, verdicts = part.split(":")
            for n, verdict in enumerate(verdicts):
                if verdict == "t":
                    found[n].add(some[int(number) - 1])
    return found


def array(values: Sequence[str | None]) -> bytes:
    """Write texts as the array that PostgreSQL reads."""
    if None not in values:
        joined = '","'.join(cast("Sequence[str]", values))
        if "\\" not in joined and joined.count('"') == 2 * (len(values) - 1):
            return f'{{"{joined}"}}'.encode("utf-8", "surrogateescape")
    cells = ("NULL" if value is None else f'"{_escaped(value)}"' for value in values)
    return f"{{{','.join(cells)}}}".encode("utf-8", "surrogateescape")


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


def by_documents(
    condition: str, types: Mapping[str, str], lookup: Lookup | None = None, given: str = _DOCUMENTS
) -> bytes:
    """Compose the statement for rows as documents: a JSON array of {n, new, old, key}.

    Its result is a JSON array of (n, verdict, gone, hidden), in any order: *gone* if a value is
    omitted and the row, which would have it, was not found; *hidden* if row security can hide it.

    Args:
        condition: over new and old.
        types: of the columns that it reads.
        lookup: of documents that lack a column and have a key.
        given: the parameter.
    """
    verdict, present, new = f"({condition}), false, false", "", "given.new"
    if lookup is not None:
        present = _present_row(lookup, types)
        new = "coalesce(present.part, '{}') || given.new"
        # The condition is not evaluated without a value that it reads: it would be NULL.
        verdict = (
            f"case when given.key is null or present.part is not null then ({condition}) end,\n"  # noqa: S608
            "       given.key is not null and present.part is null,\n"
            "       (select row_security_active(c.oid) from pg_class c"
            f" where c.oid = {lookup.relation})"
        )
    return (
        f"select json_agg(json_build_array(given.n, {verdict}))::text\n"  # noqa: S608 - a checked condition
        f"  from jsonb_to_recordset({given})\n"
        "           as given (n integer, new jsonb, old jsonb, key jsonb)\n"
        f"{present}"
        f"       cross join lateral {_record('new', new, types)}\n"
        f"       cross join lateral {_record('old', 'given.old', types)}"
    ).encode()


def _record(side: str, given: str, types: Mapping[str, str]) -> str:
    """Build one side of the change as a row, without columns if the condition reads none."""
    if not types:
        return f"(select) as {side}"
    return f"jsonb_to_record({given}) as {side} ({_typed(types)})"


def _typed(types: Mapping[str, str]) -> str:
    return ", ".join(f"{quote_name(name)} {kind}" for name, kind in types.items())


def _present_row(lookup: Lookup, types: Mapping[str, str]) -> str:
    """Join the current values of the columns that the condition reads.

    A dropped column is selected too: its value is lost, and the error is better than NULL.
    """
    columns = ", ".join(f"t.{quote_name(name)}" for name in types)
    same = " and ".join(f"t.{quote_name(name)} = wanted.{quote_name(name)}" for name in lookup.key)
    return (
        "       left join lateral (\n"  # noqa: S608 - quoted names
        "           select to_jsonb(part) as part\n"
        f"             from (select {columns}\n"
        f"                     from jsonb_to_record(given.key) as wanted ({_typed(lookup.key)})\n"
        f"                          join {'.'.join(map(quote_name, lookup.table))} as t on {same}\n"
        "                    where given.key is not null) as part) as present on true\n"
    )
