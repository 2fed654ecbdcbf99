"""The `walagent` command: parse options, call one function, print, choose the exit code.

A command is an entry of `COMMANDS` and a click command in the module named there, which is imported
when the command is called: `walagent --help` imports none of them.  A room holds the modules of a
group; `terminal/` decides how results look.
"""

from walagent.cli.commands import COMMANDS
from walagent.cli.group import Program

main = Program(
    "walagent",
    COMMANDS,
    about="Run LLM agents on PostgreSQL row changes.",
    epilog="Database: --dsn, DATABASE_URL or libpq's variables; else an embedded server."
    "  Exit codes: 0 success, 1 failure, 2 invalid option or file, 3 a person acts.",
)

__all__ = ["main"]
