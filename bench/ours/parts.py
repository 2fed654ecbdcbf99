"""The daemon's parts, put together as `walagent.app` does, with its default settings."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

from bench.sampling import Sampler
from walagent.config import Batches, Replication, Workers
from walagent.intake.conditions import Evaluator
from walagent.intake.intake import Intake
from walagent.intake.settings import IntakeSettings
from walagent.matching.registry import Registry
from walagent.models import build_model
from walagent.models.limits import LimitSettings, ModelLimits
from walagent.models.model import Model
from walagent.replication.bootstrap import PUBLICATIONS, ensure_slot
from walagent.replication.feed import Feed
from walagent.runs.batch_work import BatchWork
from walagent.runs.tools.toolbox import Toolbox
from walagent.runs.worker import Worker, WorkerSettings
from walagent.runs.worker_models import Models
from walagent.store.attachments import active_attachments, load_models, secret_key
from walagent.store.checkpoint import take_checkpoint
from walagent.store.ingestion import last_writes
from walagent.store.role_reader import RoleReader
from walagent.store.sessions.connections import connect, open_pool
from walagent.store.sessions.tool_connections import open_tool_connections
from walagent.telemetry import log
from walagent.wal.options import StreamOptions
from walagent.wal.stream import open_stream
from walagent.workers.worker_resources import agent_resources

if path := os.environ.get("BENCH_PROFILE"):
    Sampler(Path(path)).start()

REPLICATION = Replication()
STREAM = StreamOptions(REPLICATION.slot, publications=PUBLICATIONS)


class _Nowhere(StringIO):
    def write(self, s: str, /) -> int:
        return len(s)


def write_log() -> None:
    """Make the daemon's log lines, which cost it something, and keep none."""
    log.configure("json", "info", stream=_Nowhere())


async def make_slot(url: str) -> None:
    """Make slot and checkpoint."""
    async with await connect(url) as conn:
        await ensure_slot(conn, url, REPLICATION)


@asynccontextmanager
async def open_feed(url: str) -> AsyncGenerator[tuple[Feed, Intake]]:
    """The stream from where the checkpoint ends, and what takes its changes in."""
    async with await connect(url) as conn, await connect(url) as evaluating:
        registry = Registry(await active_attachments(conn))
        key = await secret_key(conn)
        async with open_stream(url, STREAM) as stream:
            checkpoint = await take_checkpoint(conn, STREAM.slot, "bench")
            evaluator, settings = Evaluator(evaluating, RoleReader(evaluating)), IntakeSettings()
            intake = Intake(conn, evaluator, checkpoint, registry, key, settings)
            async for row in last_writes(conn):
                intake.corrections.know(*row)
            yield Feed(stream, [intake]), intake


@asynccontextmanager
async def open_worker(
    url: str,
    *,
    slots: int,
    model_of: Callable[[str], Model] | None = None,
    batches: bool = False,
) -> AsyncGenerator[Worker]:
    """A worker with its own connections.

    Args:
        model_of: finds a model by its name; default the registry.
        batches: work on batches, which are made and looked at without a pause.
    """
    settings = Workers(slots=slots)
    async with (
        open_pool(url, size=settings.connections, application="bench") as pool,
        open_tool_connections(pool, lambda: url) as calls,
    ):
        async with pool.connection() as conn:
            specs, key = await load_models(conn), await secret_key(conn)
        limits = ModelLimits(LimitSettings(calls=slots))
        models = Models(specs, lambda spec: build_model(spec, environ=os.environ), limits)
        shop = agent_resources(pool, Toolbox(calls, {}), model_of or models, key)
        pace = Batches(wait=0.5, poll=0.1)
        work = BatchWork(pace, settings.lease, pool, models)
        beside = asyncio.create_task(work.keep_working()) if batches else None
        yield Worker(
            WorkerSettings("bench", slots, settings.lease, settings.poll, settings.drain), shop
        )
        if beside is not None:
            beside.cancel()
        await models.aclose()
