"""`walagent knowledge documents`: texts that agents and people search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from walagent.cli.json_options import json_object
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_option, json_result, limit_option, print_json
from walagent.cli.terminal.table import print_rows
from walagent.errors import ConfigError
from walagent.store.people import memories
from walagent.store.people.memories import Connection

_MOST: Final = 1 << 20  # bytes of a document


@click.command("add")
@click.argument(
    "files",
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    nargs=-1,
    required=True,
)
@click.option("--title", help="Title, of one file.  [default: its name]")
@click.option("--metadata", default="{}", metavar="JSON", help="Properties to filter by.")
@json_option()
@where_options
def add_(
    where: Where, files: Sequence[Path], title: str | None, metadata: str, *, as_json: bool
) -> None:
    """Store text files as documents, all or none; print their IDs."""
    if title is not None and len(files) > 1:
        raise ConfigError("--title requires one FILE")
    properties, texts = json_object(metadata, "--metadata"), [(path, _text(path)) for path in files]

    async def add(conn: Connection) -> list[dict[str, str]]:
        return [
            {
                "file": str(path),
                "id": await memories.add_document(
                    conn, title or path.stem, text, str(path), properties
                ),
            }
            for path, text in texts
        ]

    added = ask(where, add)
    if as_json:
        print_json(added)
        return
    for each in added:
        click.echo(each["id"])


@click.command("search")
@click.argument("query")
@click.option("-k", type=click.IntRange(1, 100), default=10, show_default=True, help="How many.")
@json_option()
@where_options
def search_(where: Where, query: str, k: int, *, as_json: bool) -> None:
    """Search documents by words, best first."""
    rows = ask(where, lambda conn: memories.search_documents(conn, query, k))
    columns = ["id", "score", "title", "excerpt"]
    print_rows(rows, columns, as_json=as_json, empty="no document fits")


@click.command("list")
@limit_option("documents", default=100, most=10_000)
@json_option()
@where_options
def list_(where: Where, limit: int, *, as_json: bool) -> None:
    """List documents, the latest first."""
    rows = ask(where, lambda conn: memories.list_documents(conn, limit))
    columns = ["id", "title", "source", "bytes", "chunks", "embedded", "updated_at"]
    print_rows(rows, columns, as_json=as_json, empty="no documents")


@click.command("rm")
@click.argument("ids", metavar="DOCUMENT...", type=click.UUID, nargs=-1, required=True)
@json_result
@where_options
def rm_(where: Where, ids: Sequence[object]) -> None:
    """Remove documents with their chunks and links: all or none."""
    wanted = sorted({str(each) for each in ids})

    async def remove(conn: Connection) -> None:
        gone = await memories.delete_documents(conn, wanted)
        if missing := sorted(set(wanted) - set(gone)):
            raise ConfigError(f"document {missing[0]} does not exist")

    ask(where, remove)
    done(f"removed {len(wanted)}", removed=[*map(str, wanted)])


def _text(path: Path) -> str:
    """Read a text file.

    Raises:
        ConfigError: it is too large, or no text in UTF-8.
    """
    size = path.stat().st_size
    if size > _MOST:
        raise ConfigError(f"{path} has {size:,} bytes; {_MOST:,} are allowed")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (at byte {error.start})") from error
    if "\0" in text:
        raise ConfigError(f"{path} contains a zero byte")
    return text
