"""A model that follows a script, for tests."""

from walagent.agent.model import Model
from walagent.agent.models.credentials import Secrets
from walagent.agent.models.provider import Build, Provider
from walagent.message import ModelSpec


def _load() -> Build:
    from walagent.agent.models.scripted.script_file import scripted_model

    def build(spec: ModelSpec, _secrets: Secrets) -> Model:
        return scripted_model(spec)

    return build


PROVIDER = Provider(name="scripted", load=_load, note="not a language model")
