"""Models of the Anthropic API."""

from typing import TYPE_CHECKING

from walagent.models.credentials import Api
from walagent.models.lean_import import import_lean
from walagent.models.provider import Build, Provider

if TYPE_CHECKING:
    from walagent.models.wire_format import WireFormat

NAME = "anthropic"
API = Api(
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    url="ANTHROPIC_BASE_URL",
    official="https://api.anthropic.com",
    domains=("anthropic.com", "claude.com"),
)


def _load() -> Build:
    import_lean("anthropic", "types", "lib", "resources")
    from walagent.models.anthropic.messages_model import AnthropicModel

    return AnthropicModel


def _load_wire() -> "WireFormat":
    from walagent.models.anthropic.fake_server import MESSAGES

    return MESSAGES


PROVIDER = Provider(name=NAME, load=_load, api=API, load_wire=_load_wire)
