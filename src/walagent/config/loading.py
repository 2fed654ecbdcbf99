"""Load agents.yaml as a `Config`."""

import sys
from pathlib import Path
from typing import cast

from walagent.config import Config, parse_config
from walagent.config.environment import Environment
from walagent.config.expand import expand
from walagent.config.yaml_file import read_yaml
from walagent.errors import ConfigError
from walagent.message import Json

DEFAULT_FILE = Path("agents.yaml")


def load_config(path: Path | None, environment: Environment) -> Config:
    """Load a file; without one, `agents.yaml` in the working directory, or else the defaults.

    Raises:
        ConfigError: the file does not exist or is invalid; the message has file and line.
    """
    if path is None and not DEFAULT_FILE.is_file():
        return Config()
    file = path or DEFAULT_FILE
    config = parse_text(_read(file), str(file), environment)
    if config.tools.modules:
        _make_importable(file.absolute().parent)
    return config


def parse_text(text: str, name: str, environment: Environment) -> Config:
    """Load a configuration from *text*; errors use *name* as its file name.

    Raises:
        ConfigError: it is invalid; the message has file and line.
    """
    document = read_yaml(text, name)
    if not isinstance(document.value, dict):
        raise ConfigError(f"{name}: expected sections such as agents: at the top level")
    raw = expand(cast("Json", document.value), environment.find, document.place)
    return parse_config(raw, document.place)


def _make_importable(folder: Path) -> None:
    """Let `tools.modules` name modules beside the file; they do not hide installed ones."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f'file "{path}" does not exist') from error
    except OSError as error:
        raise ConfigError(f'cannot read "{path}": {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise ConfigError(f'file "{path}" is not valid UTF-8 (byte {error.start})') from error
