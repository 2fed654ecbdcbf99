"""Models of OpenAI Chat Completions, and of every server that speaks it."""

from typing import TYPE_CHECKING

from walagent.models.credentials import Api
from walagent.models.lean_import import import_lean
from walagent.models.provider import Build, Provider

if TYPE_CHECKING:
    from walagent.models.wire_format import WireFormat

NAME = "openai"
API = Api(
    keys=("OPENAI_API_KEY",),
    url="OPENAI_BASE_URL",
    official="https://api.openai.com/v1",
    domains=("openai.com", "openai.azure.com"),
)


def _load() -> Build:
    import_lean("openai", "types", "lib")
    from walagent.models.openai.chat_model import OpenAIModel

    return OpenAIModel


def _load_wire() -> "WireFormat":
    from walagent.models.openai.fake_server import CHAT

    return CHAT


PROVIDER = Provider(name=NAME, load=_load, api=API, load_wire=_load_wire)
