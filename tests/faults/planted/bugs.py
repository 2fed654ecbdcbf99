"""The bugs that are planted to see the tests fail, and which tests must see which.

Each breaks one of the mechanisms that docs/guarantees.md names, or one that keeps rows from those
who may not see them, as somebody might who tidies up, and nothing else: as long as no fault happens
and nobody tries, all goes well.
"""

from dataclasses import dataclass

from tests.faults.planted.marks import Before, Delete, Edit, Rewrite

# Passes with every bug in place: what is planted does not show while nothing goes wrong.
CONTROL = "tests/integration/runs/test_run_through.py::test_a_ticket_is_refunded_and_closed"


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
FENCES = "tests/faults/test_fences.py::"
ORDERING = "tests/integration/sql/test_ordering.py::"
CLAIMS = "tests/integration/sql/test_claim_chance.py::"
PRIORITY = "tests/integration/sql/test_priority.py::"
UNCHANGED = "tests/integration/runs/test_only_unchanged.py::"
EMBEDDINGS = "tests/integration/runs/test_embeddings.py::"
DAEMONS = (
    "tests/faults/test_failpoints.py::test_daemons_that_are_killed_at_every_point_are_made_up_for"
)

NO_KEY = (
    Delete("no-unique-key/table"),
    Rewrite("no-unique-key/insert", "on conflict.*do nothing", ""),
    Delete("no-unique-key/insert-and-claim"),
    Delete("no-unique-key/collect"),
)

CANARIES = "tests/integration/canary/"
CASCADES = "tests/integration/runs/test_cascade.py::"

BUGS = (
    Bug(
        "canary-by-position",
        "which version of an attachment with a canary a change gets depends on its position",
        (Rewrite("canary-by-position", " if key is None else key", ""),),
        (
            Catch(
                CANARIES + "test_canary.py::test_a_canary_has_its_share_between_two_commits",
                r"== expected",
                "runs have the other version",
            ),
        ),
    ),
    Bug(
        "canary-left",
        "a reader that starts does not know the canaries in effect at the checkpoint",
        (Rewrite("canary-left", ", shared", ""),),
        (
            Catch(
                CANARIES + "test_canary.py::test_a_canary_outlasts_its_reader",
                r"== expected",
                "runs of the canary have the other version",
            ),
        ),
    ),
    Bug(
        "half-a-reply",
        "calls of a model of a cascade are carried out although a later one of the reply is wrong",
        (Rewrite("half-a-reply", r"\[1:\]", "[1:0]"),),
        (
            Catch(
                CASCADES + "test_unsure_models_are_passed_and_the_last_one_answers",
                r"assert|DEADLINE|Timeout",
                "an unsure model acts",
            ),
        ),
    ),
    Bug(
        "margin-not-kept",
        "what the embedded model of a cascade decides by follows its row, not the version",
        (Delete("margin-not-kept"),),
        (
            Catch(
                CASCADES + "test_the_embedded_model_keeps_its_margin_whatever_its_row_says_later",
                r"margin",
                "a change of the model lowers the margin of runs",
            ),
        ),
    ),
    Bug(
        "kept-step-again",
        "a fork keeps what the model said, and not what its calls came to",
        (Rewrite("kept-step-again", "$", " and s.kind <> 'result'"),),
        (
            Catch(
                "tests/integration/runs/test_fork.py"
                "::test_effects_of_kept_steps_are_not_done_again",
                r"rows\(conn, REFUNDS\)|asked \+ 2",
                "the effect of a kept step is done again",
            ),
        ),
    ),
    Bug(
        "trial-kept",
        "the transaction of a trial is committed",
        (Rewrite("trial-kept", "force_rollback=True", ""),),
        (
            Catch(
                CANARIES + "test_shadow.py::"
                "test_a_shadow_has_its_changes_and_nothing_of_it_is_kept",
                r"KEPT\) == before",
                "the copy of the attachment is kept",
            ),
        ),
    ),
    Bug(
        "two-transactions-python",
        "the effect of a tool in Python commits before the step that records it",
        (
            Before(
                "two-transactions-python",
                'await conn.conn.execute("commit; begin")\n'
                "from walagent.store.sessions.tool_connections import name_transaction\n"
                "transaction = replace(transaction, name=await name_transaction(conn.conn))\n"
                "await tool_calls.open_step(transaction, claim, work.seq, work.call, role, rest)",
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
            Before("two-transactions-sql/function", "return _content;"),
            Rewrite(
                "two-transactions-sql/caller",
                r"$",
                "; await self._steps.record(work, content)",
            ),
        ),
        (
            Catch(
                POINTS + "test_a_worker_that_dies_anywhere_has_every_effect_once[tool.committed-0]",
                r"EFFECTS\) == EXPECTED",
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
                POINTS + "test_a_checkpoint_that_was_put_back_starts_nothing_again",
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
            Rewrite("runs-first/path", "not special", "not (special or runs)"),
            Before("runs-first/commit", 'await self.conn.execute("commit; begin")'),
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
        (Before("confirm-before-commit", "self._stream.confirm(passed)"),),
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
        (Rewrite("end-plus-one", r"(\w+\.end_lsn)", r"Lsn(\1 + 1)"),),
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
        (Rewrite("skip-the-border", " < ", " <= "),),
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
        "no-fence-of-runs",
        "transactions of a worker do not look at the number of the lease",
        (
            Delete("no-fence-of-runs/fence"),
            Delete("no-fence-of-runs/finish"),
            Delete("no-fence-of-runs/record"),
        ),
        (
            Catch(
                "tests/integration/runs/test_recorder.py::"
                "test_one_that_is_refused_raises_why_and_the_others_are_recorded",
                r"LeaseLostError",
                "a group of records is written by who lost one of the runs",
            ),
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
        (Delete("no-fence-of-the-checkpoint"),),
        (
            Catch(
                FENCES + "test_a_reader_that_loses_the_checkpoint_anywhere_writes_no_more"
                "[intake.runs_inserted]",
                r"assert fenced ==",
                "who lost the checkpoint commits, and nothing stops it",
            ),
        ),
    ),
    Bug(
        "two-of-a-key",
        "two claims that cannot see each other's run of an ordering key both take theirs",
        (Rewrite("two-of-a-key", "unique ", ""),),
        (
            Catch(
                CLAIMS + "test_a_run_that_is_committed_late_waits_for_the_younger_one_of_its_key",
                r"assert \[1\] == \[\]",
                "an older run is claimed beside the younger one",
            ),
        ),
    ),
    Bug(
        "pause-unseen",
        "a claim that began before a pause takes its runs after it",
        (Rewrite("pause-unseen", r"agent_internal\.try_start\(\)", "true"),),
        (
            Catch(
                CLAIMS + "test_a_pause_waits_for_claims_under_way_and_stops_later_ones",
                r"assert not",
                "the pause does not wait for the claim",
            ),
        ),
    ),
    Bug(
        "cap-unlocked",
        "claims of a queue with a cap count its runs without a lock",
        (Rewrite("cap-unlocked", "for no key update skip locked", ""),),
        (
            Catch(
                CLAIMS + "test_no_promise_of_a_claim_is_broken[1-8]",
                "a cap: ",
                "more runs are running than the cap",
            ),
        ),
    ),
    Bug(
        "limit-unlocked",
        "claims of a tenant with a limit count its runs without a lock",
        (Rewrite("limit-unlocked", ", true", ", false"),),
        (
            Catch(
                CLAIMS + "test_no_promise_of_a_claim_is_broken[1-8]",
                "a limit of a tenant: ",
                "more runs of a tenant are running than its limit",
            ),
        ),
    ),
    Bug(
        "priority-ignored",
        "a claim takes the runs of the lowest priority first",
        (Rewrite("priority-ignored", " desc", ""),),
        (
            Catch(
                CLAIMS + "test_no_promise_of_a_claim_is_broken[0-2]",
                "passed over: ",
                "a run starts while one of a higher priority could",
            ),
        ),
    ),
    Bug(
        "start-outranks",
        "a run starts as it is inserted while one of a higher priority waits",
        (Rewrite("start-outranks", r"_above > _priority", "false"),),
        (
            Catch(
                "tests/integration/sql/test_priority.py"
                "::test_no_run_starts_as_it_is_inserted_before_a_higher_one",
                "assert not",
                "it starts",
            ),
        ),
    ),
    Bug(
        "stale-write",
        "update_row writes though what the agent was shown has changed since",
        (Rewrite("stale-write", r"coalesce\(agent_internal\.same_values.*'true'\)", "'true'"),),
        (
            Catch(
                UNCHANGED + "test_what_somebody_has_changed_meanwhile_is_not_overwritten",
                r"results\(conn\)|== \[",
                "the value that a person set is overwritten",
            ),
        ),
    ),
    Bug(
        "stale-long-value",
        "a long value that an update left as it was is not compared before the row is written",
        (Rewrite("stale-long-value", r"\*\*left, ", ""),),
        (
            Catch(
                EMBEDDINGS + "test_long_values_that_an_update_leaves_are_embedded",
                "== 1",
                "an embedding of a former text is written",
            ),
        ),
    ),
    Bug(
        "embedding-by-order",
        "the embeddings of an answer are taken in their order, not by their index",
        (Rewrite("embedding-by-order", r"found\[index\]", "[*found.values()][index]"),),
        (
            Catch(
                EMBEDDINGS + "test_texts_of_concurrent_runs_are_sent_together",
                r"stale|== \[\]",
                "rows get the embeddings of others",
            ),
        ),
    ),
    Bug(
        "key-not-raised",
        "a run that another one of its ordering key waits for keeps its lower priority",
        (Delete("key-not-raised"),),
        (
            Catch(
                PRIORITY + "test_a_run_is_raised_for_those_of_its_key_that_wait_for_it",
                "held.run_id == filled",
                "what holds back an urgent run is passed over",
            ),
        ),
    ),
    Bug(
        "review-holds-nothing",
        "a run in needs_review no longer holds its ordering key",
        (
            Rewrite("review-holds-nothing/claim", ", 'needs_review'", ""),
            Rewrite("review-holds-nothing/start", ", 'needs_review'", ""),
        ),
        (
            Catch(
                ORDERING + "test_a_claim_takes_a_later_run_only_if_no_earlier_one_holds_the_"
                "ordering_key[needs_review]",
                r"is not HOLDS\[state\]",
                "a later run of the key is claimed",
            ),
            Catch(
                ORDERING + "test_a_run_is_inserted_as_claimed_only_if_none_holds_its_ordering_key"
                "[needs_review]",
                r"is not HOLDS\[state\]",
                "a later run of the key starts at once",
            ),
        ),
    ),
    Bug(
        "too-many-ends",
        "a webhook that answers 429 ends the delivery",
        (Rewrite("too-many-ends", ", 429", ""),),
        (
            Catch(
                "tests/unit/outbox/test_statuses.py::test_every_status_of_a_webhook",
                r"assert found == OF_HTTP",
                "the message is lost while its receiver is busy",
            ),
        ),
    ),
    Bug(
        "rows-of-elsewhere",
        "the guard reads a table with a partition on another server",
        (Rewrite("rows-of-elsewhere", r' or row\["foreign_parts"\]', ""),),
        (
            Catch(
                "tests/integration/guard/test_relations.py::"
                "test_a_relation_with_rows_on_another_server_cannot_be_read",
                r"assert .*reason in found",
                "a query can make the server connect to another one",
            ),
        ),
    ),
    Bug(
        "update-without-key",
        "in a shape of a table with full identity, an update lacks the key of its row",
        (Rewrite("update-without-key", r" \| set\(self\.table\.key\)", ""),),
        (
            Catch(
                "tests/unit/sync/test_shape.py::test_an_update_names_the_row_by_its_key[f]",
                r"assert found\.value ==",
                "an application cannot tell which row has changed",
            ),
        ),
    ),
    Bug(
        "key-before-ignored",
        "a shape of keys looks for a row by its new key alone",
        (Rewrite("key-before-ignored", r"\{\*\*self\.new, \*\*self\.old\}", "self.new"),),
        (
            Catch(
                "tests/unit/sync/test_shape.py"
                "::test_a_client_has_the_rows_of_the_shape_after_each_change",
                r"assert client\.rows ==",
                "a row that has left a shape stays with its clients",
            ),
        ),
    ),
    Bug(
        "last-change-alone",
        "of several changes of a row in a transaction, a correction is looked for in the last one",
        (
            Rewrite(
                "last-change-alone",
                r"\{\*\*before\.get\(\"values\", \{\}\), \*\*row\[\"values\"\]\}",
                'row["values"]',
            ),
        ),
        (
            Catch(
                "tests/integration/changes/test_corrections.py"
                "::test_what_is_there_after_a_transaction_counts[full]",
                r"assert await corrected\(d\) ==",
                "with replica identity full, an earlier change has the columns that it changed",
            ),
        ),
    ),
    Bug(
        "late-marker",
        "an origin marker that comes after changes of its transaction is used",
        (Delete("late-marker"),),
        (
            Catch(
                "tests/unit/intake/test_batching.py::"
                "test_an_origin_marker_counts_only_before_the_changes[change, ours]",
                r"assert last\.origin == origin",
                "a write of a person is taken for that of an agent",
            ),
        ),
    ),
    Bug(
        "any-tenant",
        "the policy that keeps sessions of other tenants from a login is `true`",
        (Rewrite("any-tenant", r"using \(.*\);", "using (true);"),),
        (
            Catch(
                "tests/attacks/test_row_policies.py::test_each_policy_hides_and_shows",
                r"assert .*== 0",
                "who has the same name in another tenant sees them",
            ),
        ),
    ),
    Bug(
        "reuse-across-roles",
        "replies are shared whatever attachment, version and role a run has",
        (Rewrite("reuse-across-roles", r"concat_ws\(.*\)", "''"),),
        (
            Catch(
                "tests/attacks/test_shared_calls.py::test_no_reply_is_shared_across_roles",
                r"assert 1 == 2",
                "a run acts on a reply that was given to another role",
            ),
        ),
    ),
    Bug(
        "row-with-two-answers",
        "of two answers to one row of a request, the last is taken",
        (Rewrite("row-with-two-answers", r"== 1", ">= 1"),),
        (
            Catch(
                "tests/integration/runs/test_rows_per_request.py::"
                "test_a_row_without_one_answer_is_asked_alone[doubled]",
                r"\[4\] == \[1, 4\]",
                "no row is asked alone",
            ),
        ),
    ),
    Bug(
        "reply-of-another-batch",
        "the results of a batch are taken for calls of other batches, too",
        (Delete("reply-of-another-batch"),),
        (
            Catch(
                "tests/integration/runs/test_batches.py::"
                "test_a_result_of_another_batch_is_not_taken",
                r"billing",
                "a run acts on what another batch says about it",
            ),
        ),
    ),
)
