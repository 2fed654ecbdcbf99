"""The database in a prompt: tables, columns and keys that the analyst role can read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from walagent.ask.retrieval import Index
from walagent.ask.samples import quoted, without_mark

_MOST_TABLES: Final = 40  # where not all fit
_FEW: Final = (
    0.3  # of a question's words; where the schema has fewer, its central tables come along
)
_MOST_VALUES: Final = 6_000  # characters of sample values, of all tables together
_MOST_TERMS: Final = 4_000  # characters of the glossary
_MOST_EXAMPLES: Final = 8_000  # characters of questions with statements

Table = Mapping[str, Any]  # as store.schema.read_schema gives it


@dataclass(frozen=True, slots=True)
class SchemaContext:
    """A description of the schema, fit for a prompt.

    Args:
        fixed: the part that is the same for each question, for a prompt's beginning: it is cached.
        fitted: the part that fits the question.
        tables: `schema.name` of those that are described.
        whole: whether all readable tables are.
        version: of the server, as it prints it.
        values: samples of what stands in columns, by `schema.table.column`.  They are data,
            not instructions: they are not part of the text.
    """

    fixed: str = ""
    fitted: str = ""
    tables: tuple[str, ...] = ()
    whole: bool = True
    version: str = ""
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def text(self) -> str:
        """All of it."""
        return _blocks(self.fixed, self.fitted)


def describe_schema(  # noqa: PLR0913 - the schema, the question, and what people have added
    tables: Sequence[Table],
    version: str = "",
    *,
    question: str = "",
    most: int = 40_000,
    terms: Sequence[tuple[str, str]] = (),
    examples: Sequence[tuple[str, str]] = (),
    index: Index | None = None,
    near: Sequence[str] = (),
) -> SchemaContext:
    """Describe all tables if they fit, else those that the question is likely about.

    Args:
        most: characters for the tables.
        terms: of the business, with what they mean; the likeliest first.
        examples: questions with statements that a person has found right; the nearest first.
        index: of the tables, where it is there already.
        near: titles of tables that mean what the question does, where its words are none of theirs.
    """
    whole = _size(tables) <= most
    shown = tables if whole else list(_likely(tables, question, most, index or Index(tables), near))
    described = _blocks(*map(describe_table, shown)) or "There are no tables."
    parts = [] if whole else [described]
    if len(shown) < len(tables):
        parts.append(f"{len(tables) - len(shown)} more tables are not shown; these fit best.")
    if lines := _fitting((f"  {term}: {meaning}" for term, meaning in terms), _MOST_TERMS):
        parts.append("\n".join(["Words of this business:", *lines]))
    written = (f"  {question}\n    {sql.strip()}" for question, sql in examples)
    if lines := _fitting(written, _MOST_EXAMPLES):
        parts.append("\n".join(["Questions whose statements were found right:", *lines]))
    names = tuple(title(table) for table in shown)
    return SchemaContext(
        described if whole else "",
        _blocks(*parts),
        names,
        len(shown) == len(tables),
        version,
        tuple(_values(shown)),
    )


def _blocks(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


def _fitting(lines: Iterable[str], most: int) -> Sequence[str]:
    """Give those that there is room for, in their order; one that is too long is left out."""
    kept: list[str] = []
    for line in lines:
        if len(line) <= most:
            most -= len(line)
            kept.append(line)
    return kept


def _values(tables: Sequence[Table]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give sample values of columns, for as long as there is room."""
    left = _MOST_VALUES
    for table in tables:
        for column in table["columns"] or ():
            values = tuple(column.get("samples") or ())
            left -= sum(len(value) + 4 for value in values)
            if left < 0:
                return
            if values:
                yield f"{table.get('quoted') or title(table)}.{quoted(column)}", values


def _size(tables: Sequence[Table]) -> int:
    return sum(len(describe_table(table)) for table in tables)


def has_few_words(index: Index, question: str) -> bool:
    """Whether hardly a word of a question is the schema's; it may be in another language."""
    return index.part_known(question) < _FEW


def _likely(
    tables: Sequence[Table], question: str, most: int, index: Index, near: Sequence[str]
) -> Iterator[Table]:
    """Give the tables that fit the question best, for as long as there is room."""
    by_title = {title(table): table for table in tables}
    names = index.rank(question, most=_MOST_TABLES)
    if has_few_words(index, question):
        half = _MOST_TABLES // 2
        names = dict.fromkeys((*near[:half], *names[:half], *index.central(half)))
    for name in names:
        if name not in by_title:
            continue  # its vector is older than the schema
        most -= len(describe_table(by_title[name]))
        if most < 0:
            return
        yield by_title[name]


def title(table: Table) -> str:
    """Name a table with its schema."""
    return f"{table['schema']}.{table['name']}"


def describe_table(table: Table) -> str:
    """Describe a table in a few lines."""
    return "\n".join(_lines(table))


def _lines(table: Table) -> Iterator[str]:
    rows = f", about {table['rows']:,} rows" if table["rows"] is not None else ""
    said = without_mark(table["comment"])
    by = table.get("partitioned_by")
    parts = f", partitioned by {by}" if by else ""
    elsewhere = ", on another server: it cannot be read" if table["kind"] == "foreign table" else ""
    name = table.get("quoted") or title(table)
    yield f"{table['kind']} {name}{rows}{parts}{elsewhere}" + (f": {said}" if said else "")
    key = set(table["key"] or ())
    for column in table["columns"] or ():
        yield f"  {_column(column, in_key=column['name'] in key)}"
    written: dict[str, str] = {each["name"]: quoted(each) for each in table["columns"] or ()}
    for columns in table.get("unique") or ():
        yield f"  unique ({', '.join(written.get(each, str(each)) for each in columns)})"
    for each in table["references"] or ():
        here = ", ".join(written.get(name, str(name)) for name in each["columns"])
        there = ", ".join(each.get("quoted_to") or each["to"])
        other = each.get("quoted") or f"{each['schema']}.{each['table']}"
        yield f"  ({here}) references {other} ({there})"
    for check in table["checks"] or ():
        yield f"  {check}"


def _column(column: Mapping[str, Any], *, in_key: bool) -> str:
    parts = [quoted(column), column["type"]]
    if in_key:
        parts.append("key")
    elif column["not_null"]:
        parts.append("not null")
    if column["values"]:
        parts.append("one of " + ", ".join(column["values"]))
    parts.extend(column.get("checks") or ())
    said = without_mark(column["comment"])
    return " ".join(parts) + (f" -- {said}" if said else "")
