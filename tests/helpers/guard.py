"""The guard's own stage: a shop full of traps, and statements of both kinds."""

from pathlib import Path

STAGE = Path(__file__).parent.parent / "integration" / "guard"

# What a trap leaves behind when it springs; a rollback takes nothing of the sequence back, nor a
# session's lock.
TRACES = """
select (select last_value from trace), (select count(*) from written),
       (select count(*) from customer), (select sum(version) from customer),
       (select count(*) from pg_class where relname = 'stolen'),
       (select count(*) from pg_locks where locktype = 'advisory'),
       (select count(*) from pg_largeobject_metadata), (select count(*) from pg_replication_slots)
"""


def statements(name: str) -> list[str]:
    """The lines of a file of the stage, without its heading."""
    return [line for line in (STAGE / name).read_text().splitlines()[1:] if line]
