"""The embedded decision model: chooses tools by embedding similarity."""

from walagent.message import ModelSpec
from walagent.models.credentials import Secrets
from walagent.models.model import Model
from walagent.models.provider import Build, Embedder, Provider


def _load() -> Build:
    from walagent.models.embedded.nearest_label_model import EmbeddedModel

    def build(spec: ModelSpec, _secrets: Secrets) -> Model:
        return EmbeddedModel(spec)

    return build


def _load_embedder() -> Embedder:
    from walagent.models.embedded.encoder import check_machine, shared_e5

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
