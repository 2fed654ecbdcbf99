"""`python -m walagent` is the `walagent` command."""

from walagent.cli import main

main(prog_name="walagent")
