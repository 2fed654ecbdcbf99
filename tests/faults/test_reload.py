"""SIGHUP: a file that is in order takes effect, one that is not changes nothing at all."""

import json
import random
import signal
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.faults.rig.checks import ALL_ENDED, all_is_well
from tests.faults.rig.probing import Manager, manager
from tests.faults.rig.processes import Daemon, Settings, config_of, pause, running, start_writer
from tests.faults.rig.stage import Place, set_up
from tests.faults.rig.waiting import fetch, until, until_true

pytestmark = pytest.mark.scenario(18)

ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"
VERSIONS = "select name, version from agent.attachment order by 1"
IN_EFFECT = "select (select version from agent.attachment where name = 'item') = %s"
WORKED = """
select exists (select from agent.run where key = %s and attachment_version = %s
                                       and state = 'succeeded')
"""
WRITE = "insert into item values (%s, 1)"
OTHER = {"model": "script", "attach": [{"table": "elsewhere"}]}


def agents(prompt: str, **changes: Any) -> Settings:  # noqa: ANN401 - as a file may have it
    """The application's agent and another one, as the file defines them."""
    attach = {
        "table": "item",
        "on": ["insert", "update"],
        "writes": ["status"],
        "bind": {"item": "id", "version": "version"},
    }
    item = {
        "model": "script",
        "system_prompt": prompt,
        "tools": ["note_change", "note_in_python"],
        "max_attempts": 50,
        "attach": [attach | changes],
    }
    return {"agents": {"item": item, "other": {**OTHER, "system_prompt": prompt}}}


async def make_scene(place: Place) -> None:
    """Make the tables that the file attaches agents to."""
    await set_up(place)
    await place.conn.execute("create table elsewhere (id bigint primary key)")


def reload(daemon: Daemon, place: Place, sections: Settings | str) -> None:
    """Write the file anew, and tell the daemon."""
    text = sections if isinstance(sections, str) else json.dumps(config_of(place, sections))
    daemon.config.write_text(text)
    daemon.signal(signal.SIGHUP)


def refusals(daemon: Daemon) -> list[str]:
    """Why it kept what it had."""
    return [each["error"] for each in daemon.events if each["event"] == "config.refused"]


WRONG: Mapping[str, tuple[Settings | str, str]] = {
    "no YAML": ("agents: {item", "daemon.json:1: expected"),
    "an unknown key": ("agnets: {}", "unknown key"),
    "a value of another kind": ("workers: {slots: many}", "workers.slots"),
    "a condition that PostgreSQL refuses": (agents("3", when="new.nothing > 1"), "nothing"),
    "a model that is not there": (
        {"agents": {**agents("3")["agents"], "other": {**OTHER, "model": "none"}}},
        'model "none"',
    ),
    "a table that is not there": (agents("3", table="nowhere"), "nowhere"),
}


async def test_a_wrong_file_changes_nothing(place: Place) -> None:
    """The reason is logged, the old definition works on, and the daemon stays what it is."""
    await make_scene(place)
    with running(Daemon(place, settings=agents("1"))) as daemon:
        await daemon.has_said("reader.streaming")
        reload(daemon, place, agents("2"))
        await until(place.conn, IN_EFFECT, 2, alive=daemon.is_alive)
        before = await fetch(place.conn, VERSIONS)
        for number, (sections, reason) in enumerate(WRONG.values(), 1):
            reload(daemon, place, sections)
            await daemon.has_said("config.refused", times=number)
            assert reason in refusals(daemon)[-1]
            assert await fetch(place.conn, VERSIONS) == before
        await place.conn.execute(WRITE, [1])
        await until(place.conn, WORKED, "1", 2, alive=daemon.is_alive)
        reload(daemon, place, agents("3"))
        await until(place.conn, IN_EFFECT, 3, alive=daemon.is_alive)
        await place.conn.execute(WRITE, [2])
        await until(place.conn, WORKED, "2", 3, alive=daemon.is_alive)
        assert daemon.count("config.reloaded") == 2


@pytest.mark.slow
async def test_a_file_that_is_gone_changes_nothing(place: Place) -> None:
    """A deployment may take it away for a moment."""
    await make_scene(place)
    with running(Daemon(place, settings=agents("1"))) as daemon:
        await daemon.has_said("reader.streaming")
        daemon.config.unlink()
        daemon.signal(signal.SIGHUP)
        await daemon.has_said("config.refused")
        assert "does not exist" in refusals(daemon)[-1]
        await place.conn.execute(WRITE, [1])
        await until(place.conn, WORKED, "1", 1, alive=daemon.is_alive)


async def each_reload_is_ready(systemd: Manager, heard: list[str]) -> bool:
    """Whether systemd has heard of the end of each reload, and of the start."""
    heard.extend(systemd.read())
    told = "\n".join(heard)
    return told.count("RELOADING=1") == told.count("READY=1") - 1


@pytest.mark.slow
async def test_reloads_under_load_cost_nothing(place: Place, chance: random.Random) -> None:
    """Each change has one run, of the version that was in effect where it stands in the WAL."""
    await make_scene(place)
    with manager(10) as systemd:
        daemon = Daemon(place, settings=agents("1"), environment=systemd.environment)
        with running(daemon):
            await daemon.has_said("reader.streaming")
            seed = chance.randrange(2**32)
            with running(start_writer(place, seed=seed, changes=600)) as writer:
                heard = list[str]()
                for number in range(2, 14):
                    heard.extend(systemd.read())  # a socket that nobody reads takes few messages
                    await until(place.conn, ENDED, 40 * number, alive=daemon.is_alive)
                    reload(daemon, place, agents(f"{number}"))
                    await pause(chance.uniform(0, 0.3))
                    if chance.random() < 0.3:
                        reload(daemon, place, chance.choice([wrong for wrong, _ in WRONG.values()]))
                assert await writer.ended(seconds=120) == 0
            await until(place.conn, ALL_ENDED, alive=daemon.is_alive, seconds=120)
            await all_is_well(place.conn)
            await until_true(partial(each_reload_is_ready, systemd, heard), "each reload is ready")
