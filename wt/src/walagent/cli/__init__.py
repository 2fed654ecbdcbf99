"""The `walagent` command: parse options, call one function, print, choose the exit code.

A command is a line of `COMMANDS` and a click command in the module named there, imported when it
is called: `walagent --help` loads none of them.
"""

from walagent.cli.commands import COMMANDS
from walagent.cli.group import Commands

main = Commands(
    "walagent",
    COMMANDS,
    about="Agents that live on your PostgreSQL tables and run on what the WAL says.",
    epilog="The database is named by --dsn, DATABASE_URL, libpq's variables, or the file; where "
    "none is named, an embedded one is used.  Exit codes: 0 done, 1 failed, 2 wrong option or "
    "file, 3 a person must act.",
)

__all__ = ["main"]
