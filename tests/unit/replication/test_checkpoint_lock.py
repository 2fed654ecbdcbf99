"""What is said of a session that keeps the checkpoint from being written."""

from walagent.replication.checkpoint_lock import sentence_of


def test_a_password_in_the_name_of_a_session_is_not_said() -> None:
    """An application_name is of somebody else, and /readyz answers without signing in."""
    said = sentence_of([(12, "sync password=hunter22"), (13, "")])
    assert said == (
        "cannot write the checkpoint: PID 12 (sync password=***) and PID 13"
        " (no application_name) holds a conflicting lock"
    )
