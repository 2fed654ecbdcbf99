"""A model that follows a script, for tests."""

from walagent.message import ModelSpec
from walagent.models.credentials import Secrets
from walagent.models.model import Model
from walagent.models.provider import Build, Provider


def _load() -> Build:
    from walagent.models.scripted.script_file import scripted_model

    def build(spec: ModelSpec, _secrets: Secrets) -> Model:
        return scripted_model(spec)

    return build


PROVIDER = Provider(name="scripted", load=_load, note="not a language model")
