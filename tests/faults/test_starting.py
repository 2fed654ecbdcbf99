"""A process that starts beside a server that is not steady yet waits until everything is open."""

from dataclasses import replace

import pytest

from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.proxy import Proxy
from tests.faults.rig.stage import ATTACH, Place, make_ready, set_up
from tests.faults.rig.waiting import until

RUN = """
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, key)
select 'manual', id, id, version, '{}', '1' from agent.attachment
"""
ENDED = "select exists (select from agent.run where agent_internal.is_final(state))"


@pytest.mark.parametrize("command", [pytest.param("run", marks=pytest.mark.slow), "serve worker"])
async def test_connections_of_each_part_are_cut(place: Place, command: str) -> None:
    """Each step of the start opens its own: the process goes on, whichever it was."""
    if command == "run":
        await set_up(place)
    else:
        await make_ready(place)
    async with Proxy(place.dsn).listen() as proxy:
        proxy.refused = set()
        with running(Daemon(replace(place, dsn=proxy.dsn), command=command)) as daemon:
            await daemon.has_said("daemon.waiting")
            if command == "run":
                await daemon.has_said("reader.streaming")
                await place.conn.execute(ATTACH.encode())
                await daemon.has_said("attachment.activated")
                await place.conn.execute("insert into item values (1, 1)")
            else:
                await place.conn.execute(RUN)
            await until(place.conn, ENDED, alive=daemon.is_alive)
        assert {"walagent worker", "walagent tools"} <= proxy.refused
