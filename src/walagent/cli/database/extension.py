"""`walagent database extension`: what `create extension pg_agent` executes."""

from pathlib import Path

import click

from walagent import __version__
from walagent.cli.terminal.output import done, json_result
from walagent.errors import ConfigError
from walagent.store.install.extension import NAME, extension_files
from walagent.store.install.files import find_files


@click.command("install")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_result
def install_(folder: Path) -> None:
    """Write the control file and the script of the extension pg_agent to DIR.

    DIR is the folder `extension` of the server, below what `pg_config --sharedir` prints.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"folder {folder} does not exist",
            hint="Use the folder extension in what pg_config --sharedir prints, on the server.",
        )
    written = list[str]()
    for name, text in extension_files(find_files(), __version__).items():
        path = folder / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"cannot write {path}: {error.strerror}",
                hint="Use an account that may write there.",
            ) from error
        written.append(str(path))
    done(f"wrote {', '.join(written)}: create extension {NAME}", written=written)
