"""The models of a worker: made once, made anew, and how many runs of each it may hold."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from walagent.errors import (
    ConfigError,
    ModelLimitedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    PreconditionError,
    WalagentError,
)
from walagent.message import Message, ModelSpec, Request, Text
from walagent.models import make_model
from walagent.models.limits import LimitSettings, ModelLimits
from walagent.models.model import Model
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.runs.worker_models import Models

REQUEST = Request("", (Message("user", (Text("q"),)),))
SPECS = {name: ModelSpec(name, "openai", name) for name in ("a", "b")}


def models(build: Callable[[ModelSpec], Model], calls: int = 256) -> Models:
    """The models a and b."""
    return Models(SPECS, build, ModelLimits(LimitSettings(calls=calls)))


def talking(spec: ModelSpec) -> Model:
    """A model that always answers."""
    return ScriptedModel(["ok"], spec=spec)


async def test_a_model_is_made_once_and_one_that_nobody_knows_may_come_yet() -> None:
    """A row that has just been added is there at the next look."""
    known = models(talking)
    assert known.get("a") is known.get("a")
    with pytest.raises(ModelUnavailableError, match='model "c" is not'):
        known.get("c")
    assert known.reload({**SPECS, "c": ModelSpec("c", "openai", "c")}) == 1
    assert (await known.get("c").complete(REQUEST)).text == "ok"
    await known.aclose()


async def test_a_model_whose_key_was_refused_looks_for_its_key_again() -> None:
    """A key that was changed in its file counts without a restart."""
    keys = ["old", "old", "new", "none"]

    def build(spec: ModelSpec) -> Model:
        answer = ModelUnauthorizedError("no") if keys.pop(0) == "old" else "ok"
        return ScriptedModel([answer], spec=spec)

    known = models(build)
    for _ in range(2):
        with pytest.raises(ModelUnauthorizedError):
            await known.get("a").complete(REQUEST)
    for _ in range(2):
        assert (await known.get("a").complete(REQUEST)).text == "ok"
    assert keys == ["none"]
    await known.aclose()


async def test_a_model_that_was_replaced_is_closed_when_its_last_call_has_ended() -> None:
    """Its connections would stay until the daemon ends."""
    closed: list[str] = []

    class Slow(ScriptedModel):
        async def aclose(self) -> None:
            closed.append(self.spec.model_id)

    known = models(lambda spec: Slow(["ok"], latency=0.05, spec=spec))
    calling = asyncio.create_task(known.get("a").complete(REQUEST))
    await asyncio.sleep(0)
    known.reload({**SPECS, "a": ModelSpec("a", "openai", "new")})
    await known.close_retired()
    assert closed == []
    assert (await calling).text == "ok"
    await known.close_retired()
    assert closed == ["a"]


async def test_a_reload_reads_keys_and_scripts_again(tmp_path: Path) -> None:
    """Where one cannot be read, nothing changes; without the reload, none is."""
    file = tmp_path / "script.yaml"
    spec = ModelSpec("s", "scripted", str(file))
    file.write_text("replies: [old]")
    known = Models({"s": spec}, make_model, ModelLimits())
    assert (await known.get("s").complete(REQUEST)).text == "old"
    file.write_text("replies: [new]")
    known.reload({"s": spec})
    assert (await known.get("s").complete(REQUEST)).text == "old"
    assert known.reload({"s": spec}, again=True) == 0
    assert (await known.get("s").complete(REQUEST)).text == "new"
    file.write_text("replies: 7")
    with pytest.raises(ConfigError, match="script"):
        known.reload({"s": spec}, again=True)
    assert (await known.get("s").complete(REQUEST)).text == "new"
    await known.aclose()


@pytest.mark.parametrize("error", [ConfigError("bad", hint="fix"), PreconditionError("absent")])
def test_a_model_that_cannot_be_built_is_for_a_person(error: WalagentError) -> None:
    """Each run of it would fail: the attachment pauses instead."""

    def build(_spec: ModelSpec) -> ScriptedModel:
        raise error

    with pytest.raises(ModelUnauthorizedError, match=str(error)) as caught:
        models(build).get("a")
    assert caught.value.hint == error.hint


async def test_a_worker_holds_as_many_runs_of_a_model_as_may_call() -> None:
    """None while its provider asks to wait."""
    error = ModelLimitedError("slow", retry_after=60)
    known = models(lambda spec: ScriptedModel([error], spec=spec), calls=20)
    assert known.tight(20) == {}
    with pytest.raises(ModelLimitedError):
        await known.get("a").complete(REQUEST)
    assert known.tight(20) == {"a": 0}
    await known.aclose()


async def test_no_model_gets_all_the_slots_while_others_are_in_use() -> None:
    """One that takes minutes to fail leaves a quarter of them."""
    known = models(talking, calls=20)
    known.get("a")
    assert known.tight(20) == {}
    known.get("b")
    assert known.tight(20) == {"a": 15, "b": 15}
    assert known.tight(2) == {}
    await known.aclose()


def test_an_sdk_is_imported_beside_the_event_loop() -> None:
    """While it is, the loop turns: there are leases and a replication connection to keep."""
    code = """
import asyncio, sys
from walagent.models import prepare

async def main():
    preparing, turns = asyncio.ensure_future(prepare("anthropic")), 0
    while not preparing.done():
        await asyncio.sleep(0)
        turns += 1
    assert "anthropic" in sys.modules
    assert turns > 100, turns
    await prepare("anthropic")
    await prepare("scripted")
    await prepare("unknown")

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
