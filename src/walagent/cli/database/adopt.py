"""`walagent database adopt`: decide what happens to the runs of a copied database."""

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_result
from walagent.errors import ConfigError
from walagent.store.install.identity import adopt_database


@click.command("adopt")
@click.option("--moved", is_flag=True, help="The original is not used any more; runs continue.")
@click.option("--copy", "copied", is_flag=True, help="The original is used; cancel its runs here.")
@json_result
@where_options
def adopt_(where: Where, *, moved: bool, copied: bool) -> None:
    """Let a restored or copied database execute runs.

    walagent refuses to execute runs in a database that was restored from a dump, created from a
    template or upgraded to another cluster: it has the unfinished runs of the original.

    \b
      --moved   the original is not used any more: its runs continue, and tool calls
                have the same idempotency keys
      --copy    the original is used: its unfinished runs are cancelled here, and
                idempotency keys are different from now on

    The slot is not copied.  Use walagent wal resync afterwards, or another replication.slot on the
    server of the original.
    """  # noqa: D301 - click's mark for lines that are not wrapped
    if moved == copied:
        raise ConfigError(
            "no choice what happens to the unfinished runs",
            hint="Use --moved if the original is not used any more, or --copy if it is.",
        )
    cancelled = ask(where, lambda conn: adopt_database(conn, moved=moved))
    if cancelled is None:
        done("the database is not a copy: nothing was changed", adopted=False)
    elif moved:
        done("adopted: the runs continue here", adopted=True, cancelled=0)
    else:
        text = f"adopted: cancelled {cancelled} runs of the original"
        done(text, adopted=True, cancelled=cancelled)
