"""Measure how well a model answers questions about a database whose answers are known.

python -m evals --model gpt-4o                 a model of the registry; its key in a variable
python -m evals --config agents.yaml           the model of its ask.model, with its limits
python -m evals --level 4 --level 5            only these
python -m evals --list                         the questions, asking nobody
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from evals.measure import Result, measure
from evals.place import Place, fill, fingerprint, place_for_a_shop
from evals.questions import Question, the_questions
from evals.report import head, line, save, summary, totals
from walagent import AsyncClient, __version__
from walagent.apply.apply import apply
from walagent.ask.answering import choose_model
from walagent.cli.exit_codes import end
from walagent.config import Config
from walagent.config.environment import Environment, load_env_file
from walagent.config.loading import load_config
from walagent.errors import PreconditionError, WalagentError
from walagent.message import Json, ModelSpec
from walagent.models import make_model
from walagent.models.registry import can_plan
from walagent.store import attachments
from walagent.store.sessions.connections import connect

REPORT = Path("build/eval.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, save; 1 when too little was right, 2 and 3 as `walagent`, 130 at Ctrl-C."""
    options = _options(arguments)
    if options.list:
        for each in _chosen(options):
            print(f"{each.id:32} {each.level}  {each.text}")
        return 0
    try:
        return asyncio.run(_measure(options))
    except WalagentError as error:
        end([error])
    except KeyboardInterrupt:
        return 130


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m evals", description="Measure how well a model answers questions."
    )
    parser.add_argument("ids", nargs="*", metavar="question", help="by id; default all")
    parser.add_argument("--model", help="its name in the registry or in the file's models")
    parser.add_argument("--config", type=Path, help="a file with models and the section ask")
    parser.add_argument(
        "--dsn",
        help="a server on which this login may make a database; default an embedded one",
    )
    parser.add_argument(
        "--level", type=int, action="append", choices=range(1, 6), help="only these"
    )
    parser.add_argument(
        "--least", type=float, default=0.0, help="accuracy, else the exit code is 1"
    )
    parser.add_argument("--report", type=Path, default=REPORT, help=f"default {REPORT}")
    parser.add_argument("--list", action="store_true", help="show the questions, ask nobody")
    options = parser.parse_args(arguments)
    known = {each.id for each in the_questions()}
    if unknown := sorted(set(options.ids) - known):
        parser.error(f"no such question: {', '.join(unknown)}; see --list")
    return options


def _chosen(options: argparse.Namespace) -> Sequence[Question]:
    """Choose the questions, with those that they follow up."""
    wanted = {
        each.id
        for each in the_questions()
        if (not options.ids or each.id in options.ids)
        and (not options.level or each.level in options.level)
    }
    for each in reversed(the_questions()):
        if each.id in wanted and each.after is not None:
            wanted.add(each.after)
    return [each for each in the_questions() if each.id in wanted]


async def _measure(options: argparse.Namespace) -> int:
    load_env_file(Path(".env"), os.environ)
    config = load_config(options.config, Environment.of_process())
    name = _model_name(config, options.model)
    async with place_for_a_shop(options.dsn) as place:
        spec = await _registered(place, config, name)
        await make_model(spec).aclose()  # a missing key is said before the shop is made
        await fill(place)
        settings = config.ask.model_copy(update={"role": place.role, "schemas": None})
        print(f"{spec.name} ({spec.provider}, {spec.model_id}) on PostgreSQL {place.version}")
        print(head())
        results: list[Result] = []
        unchanged, error = True, None
        try:
            async with AsyncClient(place.dsn, model=spec, settings=settings) as client:
                before = await _fingerprint(place)
                error = await measure(client, _chosen(options), _keeping(results))
                unchanged = before == await _fingerprint(place)
        finally:  # what was paid for is kept, also when somebody has enough of it
            if results:
                _report(options.report, spec, place, results, unchanged=unchanged)
    if error is not None:
        raise PreconditionError(
            f"the provider gives no answers: {error}",
            hint="see that it is up and that base_url is right, and run it again",
        )
    right = totals(results)["accuracy"] >= options.least
    return 0 if right and unchanged else 1


def _model_name(config: Config, given: str | None) -> str:
    """Say which model is measured.

    Raises:
        PreconditionError: nobody has named one.
    """
    if name := given or config.ask.model:
        return name
    with suppress(ValueError):
        (name,) = config.models
        return name
    raise PreconditionError(
        "no model is named that could be measured",
        hint="--model gpt-4o, with OPENAI_API_KEY set; or ask.model in the file of --config",
    )


async def _registered(place: Place, config: Config, name: str) -> ModelSpec:
    """Register the file's models beside those that are known, and give the one that is meant."""
    async with await connect(place.dsn) as conn:
        async with conn.transaction():
            await apply(conn, Config(models=config.models))
        spec = choose_model(await attachments.load_models(conn), name)
    if not can_plan(spec):
        raise PreconditionError(
            f'"{name}" cannot plan; it only chooses between labels', hint="--model gpt-4o"
        )
    return spec


async def _fingerprint(place: Place) -> list[tuple[object, ...]]:
    async with await connect(place.dsn) as conn:
        return await fingerprint(conn)


def _keeping(results: list[Result]) -> Callable[[Result], None]:
    def keep(result: Result) -> None:
        results.append(result)
        print(line(result), flush=True)

    return keep


def _report(
    path: Path, spec: ModelSpec, place: Place, results: Sequence[Result], *, unchanged: bool
) -> None:
    setting: dict[str, Json] = {
        "model": spec.name,
        "provider": spec.provider,
        "model_id": spec.model_id,
        "walagent": __version__,
        "postgresql": place.version,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "unchanged": unchanged,
    }
    save(path, setting, results)
    print(summary(totals(results)))
    if not unchanged:
        print("THE DATABASE HAS CHANGED: a statement has written", file=sys.stderr)
    print(f"written to {path}")
