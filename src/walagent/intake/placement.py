"""Place runs in the tenants that their rows name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.domain.run import NewRun, RunState
from walagent.store.ingestion import active_tenants

_MOST: Final = 63  # characters of a tenant's name
_HEAD: Final = ("op", "schema", "table")  # of a change, without its row


async def place(conn: AsyncConnection[Any], runs: Sequence[NewRun]) -> Sequence[NewRun]:
    """Return the runs, each in the tenant that its row names.

    A run whose row names none that is active ends at once, in the tenant of its attachment, without
    the row.
    """
    if not (named := {run.row_tenant for run in runs if run.row_tenant is not None}):
        return runs
    active = await active_tenants(conn, named)
    return [_placed(run, active) for run in runs]


def _placed(run: NewRun, active: Iterable[str]) -> NewRun:
    if run.row_tenant is None:
        return run
    if run.row_tenant in active:
        return replace(run, tenant=run.row_tenant)
    return replace(
        run,
        change={name: value for name, value in run.change.items() if name in _HEAD},
        key=None,
        ordering_key=None,
        debounce=None,
        deferred=None,
        state=RunState.DEAD,
        error={"reason": _reason(run.row_tenant)},
    )


async def place_rows(
    conn: AsyncConnection[Any], runs: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return runs of a backfill, as `place` does; their keys say which rows were read."""
    named = {name for run in runs if (name := run["row_tenant"]) is not None}
    active = await active_tenants(conn, named) if named else ()
    return [_placed_row(run, active) for run in runs]


def _placed_row(run: Mapping[str, Any], active: Iterable[str]) -> dict[str, Any]:
    rest, name = {key: run[key] for key in run if key != "row_tenant"}, run["row_tenant"]
    if name is None:
        return rest
    if name in active:
        return {**rest, "tenant": name}
    return {
        **rest,
        "change": {key: value for key, value in run["change"].items() if key in _HEAD},
        "ordering_key": None,
        "state": RunState.DEAD.value,
        "error": {"reason": _reason(name)},
    }


def _reason(name: str) -> str:
    if not name:
        return "the row names no tenant"
    return f'tenant "{name[:_MOST]}" does not exist or is not active'
