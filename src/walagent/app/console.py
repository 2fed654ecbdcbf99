"""Compose the console: its pages and files, and what its status page shows."""

from collections.abc import Mapping
from types import MappingProxyType

from walagent import __version__
from walagent.config.sections import Http, MutationEntry
from walagent.console.api import ConsoleApi
from walagent.console.declared import Declared, declared_mutations, declared_queries
from walagent.console.files import read_built
from walagent.console.first_requests import first_prompt
from walagent.console.offer import Application, Engine, Offer, Questions, Reasons, Trials
from walagent.console.own import Own
from walagent.console.replies import ReplyStreams
from walagent.console.site import ConsoleSite
from walagent.http.health import Health, unready_reasons
from walagent.http.hosts import hosts_of
from walagent.http.signed_tokens import FindIdentity
from walagent.runs.live_replies import LiveReplies
from walagent.store.sessions.acting import identity_of_token


def make_console(health: Health, max_progress_age: float) -> ConsoleSite:
    """Create the application of the console's pages.

    Args:
        max_progress_age: as of `/readyz`.
    """

    def status() -> Mapping[str, str]:
        reasons = unready_reasons(health, max_progress_age)
        return {
            "Version": __version__,
            "State": "; ".join(["not ready", *reasons]) if reasons else "ready",
            "Last progress": f"{health.progress_age:.1f} s ago",
            "WAL behind": f"{health.lag_bytes} bytes",
            "WAL retained": f"{health.retained_bytes} bytes",
            **({"Warnings": "; ".join(health.warnings)} if health.warnings else {}),
        }

    return ConsoleSite(read_built(), status)


def make_api(  # noqa: PLR0913 - a part of the composition root
    engine: Engine,
    shapes: Application,
    http: Http,
    find: FindIdentity = identity_of_token,
    mutations: Mapping[str, MutationEntry] = MappingProxyType({}),
    *,
    replies: LiveReplies | None = None,
    own: Own | None = None,
    questions: Questions | None = None,
    trials: Trials | None = None,
    reasons: Reasons | None = None,
) -> ConsoleApi:
    """Create the application of what the console's pages ask.

    Args:
        shapes: answers everything else of /v1.
        find: finds the identity of a token.
        mutations: of the file, by name.
        replies: what models of this process write; None: it executes no runs.
        own: named queries of the file, and what executes its statements; None: there are none.
        questions: answers questions; None: nobody can ask.
        trials: tries agents; None: nobody can.
        reasons: explains runs of a row; None: nobody can ask for them.
    """
    offer = Offer(
        {each.name: each for each in declared_queries()},
        {each.name: each for each in declared_mutations()}
        | {
            name: Declared(
                name,
                entry.statement or "",
                (),
                entry.parameters,
                function=entry.function,
                run_as=entry.run_as,
            )
            for name, entry in mutations.items()
        },
        hosts_of(http.host, http.public_url, http.hosts),
        __version__,
        first_prompt,
        secure=http.public_url is not None and http.public_url.startswith("https:"),
        replies=ReplyStreams(replies or LiveReplies()),
        own=own,
        questions=questions,
        trials=trials,
        reasons=reasons,
    )
    return ConsoleApi(engine, shapes, offer, find)
