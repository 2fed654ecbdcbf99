"""`walagent why`: why a row has a run, or none."""

import asyncio
from dataclasses import asdict

import click

from walagent.cli.session import Where, open_session, slot_option, where_options
from walagent.cli.terminal.output import json_option, print_json, print_wrapped
from walagent.explain.facts import Explanation, explain, sentences


@click.command("why")
@click.argument("table")
@click.argument("key")
@json_option()
@where_options
@slot_option
def why_(where: Where, table: str, key: str, *, as_json: bool) -> None:
    """Explain why the row of TABLE with primary key KEY has a run, or none.

    Separate the values of a multicolumn key with commas.
    """
    session = open_session(where)

    async def explained() -> Explanation:
        async with session.connection() as conn:
            config = (await session.with_slot(conn)).config
            return await explain(conn, config, table, key)

    explanation = asyncio.run(explained())
    if as_json:
        print_json(asdict(explanation))
        return
    for sentence in sentences(explanation):
        print_wrapped(sentence)
