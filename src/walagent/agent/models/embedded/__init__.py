"""The embedded decision model: chooses tools by embedding similarity."""

from walagent.agent.model import Model
from walagent.agent.models.credentials import Secrets
from walagent.agent.models.provider import Build, Embedder, Provider
from walagent.message import ModelSpec


def _load() -> Build:
    from walagent.agent.models.embedded.model import EmbeddedModel

    def build(spec: ModelSpec, _secrets: Secrets) -> Model:
        return EmbeddedModel(spec)

    return build


def _load_embedder() -> Embedder:
    from walagent.agent.models.embedded.encoder import check_machine, shared_e5

    check_machine()
    return shared_e5()


PROVIDER = Provider(
    name="embedded",
    load=_load,
    default_model="embedded/e5",
    can_plan=False,
    note="not a language model",
    extra="walagent[local]",
    load_embedder=_load_embedder,
)
