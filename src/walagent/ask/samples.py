"""Which values of columns the planner may be shown, so that it writes 'paid' and not 'PAID'.

Whatever is shown goes to the model's provider.  So by default a column is left out whose name is
that of something personal, secret or long, and of the others a value that stands in one row only,
that is long, or that looks like an address or a number of somebody.  An operator leaves out more by
`ask.no_samples`; the owner of a table has the last word, in the comment of a column or table.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from walagent.ask.retrieval import stem

DISTINCT: Final = 20  # values that a column has at most, to be sampled at all
VALUES: Final = 8  # that are shown
LONGEST: Final = 40  # characters; a column with a longer one among them is prose
ROWS: Final = 1000  # that are looked at, where the server has no statistics

Table = Mapping[str, Any]
Column = Mapping[str, Any]

NO_SAMPLES: Final = "@no-samples"
SAMPLES: Final = "@samples"
_MARK: Final = re.compile(r"\s*@(no-)?samples\b\s*", re.IGNORECASE)

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# What is personal, by the words of a column's name.
_PERSONAL: Final = """
    address age alias birth birthday birthdate born cell contact dob email ethnicity fax firstname
    fname forename fullname gender geo gps handle lastname lat latitude lname login lon longitude
    mail mobile nationality nick nickname passport patient person phone postal postcode race
    religion salutation sex signature ssn street surname tel telephone tin username vat zip
    diagnosis disability disease health illness medical medication allergy political union
"""
_GUARDED: Final = """
    account apikey bic card cookie credential credentials credit cvc cvv hash iban jwt key licence
    license otp passcode passphrase passwd password pin private pwd salt secret session sha256
    swift token
"""
_PROSE: Final = """
    answer body bio comment comments content description details feedback html issue json memo
    message note notes payload prompt question query remark remarks reply request response review
    sql subject summary text url uri xml
"""
_LEFT_OUT: Final = frozenset(map(stem, f"{_PERSONAL} {_GUARDED} {_PROSE}".split()))
# A name is personal, unless it is plainly that of something else: country_name.
_WHOSE: Final = """
    author buyer client contact customer display driver employee family father first full given
    guest holder last legal maiden manager member middle mother nick owner patient person receiver
    recipient sender student teacher user visitor
"""
_PEOPLE: Final = frozenset(_WHOSE.split())
_SOMEBODYS: Final = re.compile(r"@|\d{5,}|\d[\d\s().-]{6,}\d|://")  # e-mail, long numbers, links


def sampled_columns(table: Table, no_samples: Sequence[str]) -> Iterator[Column]:
    """Give the columns of a table whose values may be shown.

    Args:
        no_samples: patterns of `schema.table.column` that are left out, as a shell has them;
            one of `schema.table` leaves out the whole table.
    """
    if table["kind"] == "foreign table" or _marked(table["comment"]) == NO_SAMPLES:
        return
    title = f"{table['schema']}.{table['name']}"
    alone = {column for columns in _keys(table) for column in columns if len(columns) == 1}
    for column in table["columns"] or ():
        names = (title, f"{title}.{column['name']}")
        if column["name"] in alone or any(fnmatchcase(n, p) for n in names for p in no_samples):
            continue
        if column["text"] and not column["values"] and may_be_shown(column):
            yield column


def _keys(table: Table) -> Iterator[Sequence[str]]:
    yield table["key"] or ()
    yield from table["unique"] or ()


def may_be_shown(column: Column) -> bool:
    """Whether the name and the comment of a column let its values be shown."""
    mark = _marked(column["comment"])
    if mark is not None:
        return mark == SAMPLES
    parts = [word.lower() for word in _WORD.findall(column["name"])]
    if _LEFT_OUT.intersection(map(stem, parts)):
        return False
    return "name" not in parts or (len(parts) > 1 and not _PEOPLE.intersection(parts))


def _marked(comment: str | None) -> str | None:
    found = _MARK.search(comment or "")
    return None if found is None else (NO_SAMPLES if found[1] else SAMPLES)


def without_mark(comment: str | None) -> str:
    """Give a comment without what it says to us."""
    return _MARK.sub(" ", comment or "").strip()


def presentable(values: Sequence[str] | None) -> Sequence[str]:
    """Give what of a column's common values is shown: nothing where one is prose."""
    found = [value for value in values or () if value.strip() or not value]
    if any(len(value) > LONGEST for value in found):
        return ()
    return [value for value in found if not _SOMEBODYS.search(value)][:VALUES]


def sampling_statement(table: Table, columns: Sequence[Column]) -> str:
    """Write the statement that looks for common values in the first rows of a table.

    One row for each value: the number of its column, and the value.  The guard evaluates it like
        any
    other: a view is opened, and what it costs is bounded.
    """
    names = ", ".join(f"{quoted(column)}::text as c{n}" for n, column in enumerate(columns))
    each = "\nunion all\n".join(
        f"(select {n}, left(c{n}, {LONGEST + 1}), count(*) from found where c{n} is not null"  # noqa: S608 - quoted by the server
        f" group by 2 order by 3 desc, 2 limit {DISTINCT + 1})"
        for n, _ in enumerate(columns)
    )
    title = table["quoted"] or f"{table['schema']}.{table['name']}"
    return f"with found as materialized (select {names} from {title} limit {ROWS})\n{each}"  # noqa: S608 - as above


def quoted(column: Column) -> str:
    """Give a column's name as a statement must have it."""
    return column.get("quoted") or column["name"]


def common_values(
    columns: Sequence[Column], rows: Sequence[Sequence[str | None]]
) -> dict[str, Sequence[str]]:
    """Read what `sampling_statement` gave: for each column its values, where they are few."""
    found: dict[int, list[tuple[str, int]]] = {}
    for n, value, times in rows:
        found.setdefault(int(n or 0), []).append((value or "", int(times or 0)))
    return {
        columns[n]["name"]: presentable([value for value, times in values if times > 1])
        for n, values in found.items()
        if len(values) <= DISTINCT
    }
