"""What the planner is told of the database: tables, columns, keys, as the analyst may read them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from walagent.ask.retrieval import Index

_MOST_TABLES: Final = 40  # where not all fit

Table = Mapping[str, Any]  # as store.schema.read_schema gives it


@dataclass(frozen=True, slots=True)
class SchemaContext:
    """A description of the schema, fit for a prompt.

    Args:
        text: for the model.
        tables: `schema.name` of those that are described.
        whole: whether all readable tables are.
        version: of the server, as it prints it.
    """

    text: str
    tables: tuple[str, ...] = ()
    whole: bool = True
    version: str = ""


def describe_schema(  # noqa: PLR0913 - the schema, the question, and what people have added
    tables: Sequence[Table],
    version: str = "",
    *,
    question: str = "",
    most: int = 40_000,
    terms: Sequence[tuple[str, str]] = (),
    examples: Sequence[tuple[str, str]] = (),
) -> SchemaContext:
    """Describe all tables if they fit, else those that the question is likely about.

    Args:
        most: characters for the tables.
        terms: of the business, with what they mean.
        examples: questions with statements that a person has found right.
    """
    shown = tables if _size(tables) <= most else list(_likely(tables, question, most))
    parts = [describe_table(table) for table in shown] or ["There are no tables."]
    if len(shown) < len(tables):
        parts.append(f"{len(tables) - len(shown)} more tables are not shown; these fit best.")
    if terms:
        lines = [f"  {term}: {meaning}" for term, meaning in terms]
        parts.append("\n".join(["Words of this business:", *lines]))
    if examples:
        lines = [f"  {question}\n    {sql.strip()}" for question, sql in examples]
        parts.append("\n".join(["Questions whose statements were found right:", *lines]))
    names = tuple(title(table) for table in shown)
    return SchemaContext("\n\n".join(parts), names, len(shown) == len(tables), version)


def _size(tables: Sequence[Table]) -> int:
    return sum(len(describe_table(table)) for table in tables)


def _likely(tables: Sequence[Table], question: str, most: int) -> Iterator[Table]:
    """Give the tables that fit the question best, for as long as there is room."""
    by_title = {title(table): table for table in tables}
    for name in Index(tables).rank(question, most=_MOST_TABLES):
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
    said = f": {table['comment']}" if table["comment"] else ""
    yield f"{table['kind']} {title(table)}{rows}{said}"
    key = set(table["key"] or ())
    for column in table["columns"] or ():
        yield f"  {_column(column, in_key=column['name'] in key)}"
    for each in table["references"] or ():
        here, there = ", ".join(each["columns"]), ", ".join(each["to"])
        yield f"  ({here}) references {each['schema']}.{each['table']} ({there})"
    for check in table["checks"] or ():
        yield f"  {check}"


def _column(column: Mapping[str, Any], *, in_key: bool) -> str:
    parts = [column["name"], column["type"]]
    if in_key:
        parts.append("key")
    elif column["not_null"]:
        parts.append("not null")
    if column["values"]:
        parts.append("one of " + ", ".join(column["values"]))
    said = f" -- {column['comment']}" if column["comment"] else ""
    return " ".join(parts) + said
