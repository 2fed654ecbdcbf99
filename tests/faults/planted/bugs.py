"""The bugs that are planted to see the tests fail, and which tests must see which.

Each breaks one of the mechanisms that docs/guarantees.md names, as somebody might who tidies up,
and nothing else: as long as no fault happens, all goes well.
"""

from dataclasses import dataclass
from pathlib import Path

TOOLBOX = "src/walagent/runs/toolbox.py"
INTAKE = "src/walagent/intake/intake.py"
CORE, RUNS = "migrations/0001_core.sql", "migrations/0004_runs.sql"

# Passes with every bug in place: what is planted does not show while nothing goes wrong.
CONTROL = "tests/integration/runs/test_run_through.py::test_a_ticket_is_refunded_and_closed"


@dataclass(frozen=True, slots=True)
class Edit:
    """One place of the source that is made wrong."""

    file: str
    old: str
    new: str
    times: int = 1  # how often *old* stands there

    def apply(self, root: Path) -> None:
        """Make the source below *root* wrong.

        Raises:
            LookupError: it is not what it was when the bug was written down.
        """
        path = root / self.file
        path.write_text(self.on(path.read_text()))

    def on(self, text: str) -> str:
        """The file's text with the bug in it; raises as `apply`."""
        if (found := text.count(self.old)) != self.times:
            raise LookupError(
                f"{self.file} has this {found} times instead of {self.times}; write the bug down"
                f" anew for the source of today:\n{self.old}"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Catch:
    """A test that must fail, and what its failure must say."""

    test: str
    pattern: str  # of the failure's text
    shows: str  # in our words


@dataclass(frozen=True, slots=True)
class Bug:
    """What was planted."""

    name: str
    what: str
    edits: tuple[Edit, ...]
    caught_by: tuple[Catch, ...]


POINTS, APART = "tests/faults/test_points.py::", "tests/faults/test_points_apart.py::"
FENCES, CONNECTIONS = "tests/faults/test_fences.py::", "tests/faults/test_connections.py::"
DAEMONS = (
    "tests/faults/test_failpoints.py::test_daemons_that_are_killed_at_every_point_are_made_up_for"
)

NO_KEY = (
    Edit(
        CORE,
        "    constraint run_once_per_change"
        " unique (attachment_id, generation, commit_lsn, ordinal),\n",
        "",
    ),
    Edit(
        RUNS,
        "on conflict on constraint run_once_per_change do nothing\n",
        "-- on conflict: there is none\n",
        times=2,
    ),
    Edit(
        "src/walagent/store/sql/collect_run.sql",
        "    on conflict on constraint run_once_per_change do nothing\n",
        "",
    ),
)

BUGS = (
    Bug(
        "two-transactions-python",
        "the effect of a tool in Python commits before the step that records it",
        (
            Edit(
                TOOLBOX,
                """\
            faults.hit("tool.done")
            step = NewStep(seq, StepKind.RESULT, content)
            await runs.record_step(conn, claim, step)
            if (took :=""",
                """\
            faults.hit("tool.done")
        async with self._pool.connection() as conn, conn.transaction():
            step = NewStep(seq, StepKind.RESULT, content)
            await runs.record_step(conn, claim, step)
            if (took :=""",
            ),
        ),
        (
            Catch(
                POINTS + "test_a_worker_that_dies_anywhere_has_every_effect_once[tool.recorded-0]",
                r"EFFECTS\) == EXPECTED",
                "an effect is there twice",
            ),
            Catch(
                DAEMONS + "[a few]",
                r"'effects': \[|parcels' effects",
                "effects are there twice",
            ),
        ),
    ),
    Bug(
        "two-transactions-sql",
        "the effect of a tool in SQL commits before the step that records it",
        (
            Edit(
                RUNS,
                """\
    perform agent_internal.insert_step(_run, _seq, 'result', _content,
                                       _duration_ms => extract(milliseconds from clock_timestamp() - _started)::integer);
    return _content;
""",  # noqa: E501 - as it stands there
                "    return _content;\n",
            ),
            Edit(
                TOOLBOX,
                """\
            row = await cursor.fetchone()
        faults.hit("tool.committed")
        return NewStep(seq, StepKind.RESULT, row[0] if row else {})
""",
                """\
            row = await cursor.fetchone()
        step = NewStep(seq, StepKind.RESULT, row[0] if row else {})
        async with self._pool.connection() as conn:
            await runs.record_step(conn, claim, step)
        faults.hit("tool.committed")
        return step
""",
            ),
        ),
        (
            Catch(
                CONNECTIONS + "test_a_commit_whose_outcome_is_unknown_is_done_once"
                "[agent_internal.call_tool of walagent worker, answer lost]",
                r"'effects'",
                "an effect is there twice",
            ),
        ),
    ),
    Bug(
        "no-unique-key",
        "no unique key on attachment and position: only the checkpoint's position is left",
        NO_KEY,
        (
            Catch(
                POINTS + "test_a_ledger_that_was_put_back_starts_nothing_again",
                r"TAKEN\) == \[\(changes,\)\]",
                "changes have two runs each",
            ),
        ),
    ),
    Bug(
        "no-unique-key-two-transactions",
        "no unique key, and runs commit before the checkpoint's position",
        (
            *NO_KEY,
            Edit(
                INTAKE,
                """\
            if group.effects or group.seen or any(map(_is_special, runs)):
                async with self._conn.transaction():
                    await self._insert(runs, group)
                    await self._advance_checkpoint(_queues(runs))
""",
                """\
            if runs or group.effects or group.seen:
                async with self._conn.transaction():
                    await self._insert(runs, group)
                async with self._conn.transaction():
                    await self._advance_checkpoint(_queues(runs))
""",
            ),
        ),
        (
            Catch(
                POINTS + "test_a_reader_that_dies_anywhere_takes_each_change_in_once"
                "[intake.checkpoint_advanced-1]",
                r"assert await fetch\(scene\.conn, query\) == runs",
                "changes have two runs each",
            ),
        ),
    ),
    Bug(
        "confirm-before-commit",
        "a position is confirmed to the server before it is committed here",
        (
            Edit(
                INTAKE,
                """\
        if not group.is_empty:
            runs = await self._runs(group.found)
""",
                """\
        if not group.is_empty:
            self._stream.confirm(gathering.passed)
            runs = await self._runs(group.found)
""",
            ),
        ),
        (
            Catch(
                APART + "test_nothing_is_confirmed_before_it_is_committed",
                r"== \[\(False, True\)\]",
                "the server may forget what has no run yet",
            ),
            Catch(
                DAEMONS + "[intake.runs_inserted]",
                r"assert 3 == -9",
                "a daemon that is killed before its commit finds the slot ahead of the checkpoint",
            ),
        ),
    ),
    Bug(
        "end-plus-one",
        "the checkpoint ends a byte after the commit: end LSN + 1",
        (
            Edit(
                "src/walagent/intake/batching.py",
                "self.passed = max(self.passed, commit.end_lsn)",
                "self.passed = max(self.passed, Lsn(commit.end_lsn + 1))",
            ),
        ),
        (
            Catch(
                APART + "test_a_commit_right_after_another_is_neither_lost_nor_repeated"
                "[intake.committed]",
                r"COUNT_OF_ALL\) == \[\(LARGE \+ 2,\)\]",
                "the commit that begins there is lost",
            ),
        ),
    ),
    Bug(
        "skip-the-border",
        "a transaction that commits at the checkpoint's end counts as done: `<=` for `<`",
        (
            Edit(
                "src/walagent/wal/checkpoint.py",
                "self._skipping = begin.commit_lsn < self._start",
                "self._skipping = begin.commit_lsn <= self._start",
            ),
        ),
        (
            Catch(
                APART + "test_a_commit_right_after_another_is_neither_lost_nor_repeated"
                "[intake.confirmed]",
                r"COUNT_OF_ALL\) == \[\(LARGE \+ 2,\)\]",
                "the commit that begins there is lost",
            ),
        ),
    ),
    Bug(
        "no-fence-of-runs",
        "transactions of a worker do not look at the number of the lease",
        (
            Edit(
                RUNS,
                "     where r.id = _run and r.lease = _lease"
                " and r.lease_expires_at is not null\n"
                "       for no key update;\n",
                "     where r.id = _run\n       for no key update;\n",
            ),
            Edit(
                RUNS,
                "     where id = _run and lease = _lease and lease_expires_at is not null\n"
                "       and (not cancel_requested",
                "     where id = _run\n       and (not cancel_requested",
            ),
        ),
        (
            Catch(
                FENCES + "test_a_worker_that_loses_its_lease_anywhere_writes_no_more[tool.started]",
                r"OF_RUNS\) == loot",
                "who lost the run goes on writing to it",
            ),
        ),
    ),
    Bug(
        "no-fence-of-the-checkpoint",
        "moving the checkpoint on does not look at its epoch",
        (
            Edit(
                RUNS,
                "     where slot = _slot and epoch = _epoch and end_lsn <= _end_lsn;\n",
                "     where slot = _slot and end_lsn <= _end_lsn;\n",
            ),
        ),
        (
            Catch(
                FENCES + "test_a_reader_that_loses_the_ledger_anywhere_writes_no_more"
                "[intake.runs_inserted]",
                r"assert fenced ==",
                "who lost the checkpoint commits, and nothing stops it",
            ),
        ),
    ),
)
