"""agents.yaml in, a `Config` out."""

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
    """Read a file; without one, `agents.yaml` in the working directory, or else all defaults.

    Raises:
        ConfigError: the file is not there, or something in it is wrong; says where.
    """
    if path is None and not DEFAULT_FILE.is_file():
        return Config()
    return parse_text(_read(path or DEFAULT_FILE), str(path or DEFAULT_FILE), environment)


def parse_text(text: str, name: str, environment: Environment) -> Config:
    """Read a configuration from *text*, which errors call *name*.

    Raises:
        ConfigError: something in it is wrong; says where.
    """
    document = read_yaml(text, name)
    if not isinstance(document.value, dict):
        raise ConfigError(f"{name}: expected sections such as agents: at the top")
    raw = expand(cast("Json", document.value), environment.find, document.place)
    return parse_config(raw, document.place)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (at byte {error.start})") from error
