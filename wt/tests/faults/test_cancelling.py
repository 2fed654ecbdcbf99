"""A run is cancelled while its model thinks: by whoever may, and by nobody else."""

from tests.faults.rig.serving import serving
from tests.faults.rig.stage import Place, make_ready
from tests.faults.rig.waiting import fetch, until

SETTINGS = {"workers": {"lease": 30, "poll": 30}}  # so that neither a lease nor a poll helps
SOON = 5.0  # seconds; the heartbeat comes every ten, the model's answer after 60
WRITE = """
with new as (insert into item values (1, 1) returning id, version)
insert into written (item, version) select * from new
"""
IN_WORK = "select exists (select from agent.run where state = 'running')"
CANCELLED = "select exists (select from agent.run where state = 'cancelled')"


async def test_a_cancelled_run_ends_while_its_model_thinks(place: Place) -> None:
    """Its worker hears of it at once."""
    await make_ready(place, latency=60)
    async with serving(place, place.dsn, SETTINGS) as daemon:
        await place.conn.execute(WRITE)
        await until(place.conn, IN_WORK, alive=daemon.is_alive)
        await place.conn.execute("select agent.cancel(id) from agent.run")
        await until(place.conn, CANCELLED, seconds=SOON, alive=daemon.is_alive)
        assert await fetch(place.conn, "select lease_expires_at from agent.run") == [(None,)]


async def test_a_forged_notification_cancels_nothing(place: Place) -> None:
    """Anybody who can connect may notify; only what agent.cancel has written counts."""
    await make_ready(place, latency=0.3)
    async with serving(place, place.dsn, SETTINGS) as daemon:
        await place.conn.execute(WRITE)
        await until(place.conn, IN_WORK, alive=daemon.is_alive)
        await place.conn.execute("select pg_notify('walagent_cancel', id::text) from agent.run")
        ended = "select agent.is_final(state) from agent.run"
        await until(place.conn, ended, alive=daemon.is_alive)
        assert await fetch(place.conn, "select state from agent.run") == [("succeeded",)]
