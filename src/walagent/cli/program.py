"""How a shell starts this walagent: printed commands must work when they are pasted."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from walagent.config import Config
from walagent.config.dsn import EMBEDDED, choose
from walagent.config.environment import Environment

_HOME = "WALAGENT_HOME"


def program() -> str:
    """Return the start of a command line: the name if a shell finds this one by it, else a path.

    The folder of the embedded server is part of it if a variable names it.
    """
    home = os.environ.get(_HOME)
    return f"{_HOME}={shlex.quote(home)} {_path()}" if home else _path()


def embedded_options(config: Config, environment: Environment, dbname: str | None) -> str:
    """Return the options that select a database of the embedded server, each after a space.

    If something else names a database, the server must be named.
    """
    elsewhere = choose(config, environment) is not None
    server = f" --dsn {EMBEDDED}" if elsewhere else ""
    return f"{server} -d {shlex.quote(dbname)}" if dbname else server


def _path() -> str:
    script = Path(sys.argv[0])
    if script.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m walagent"
    found = shutil.which(script.name)
    if found is not None and Path(found).absolute() == script.absolute():
        return script.name
    absolute, here = script.absolute(), Path.cwd()
    if not absolute.is_relative_to(here):
        return shlex.quote(str(absolute))
    near = str(absolute.relative_to(here))
    return shlex.quote(near if os.sep in near else f"{os.curdir}{os.sep}{near}")
