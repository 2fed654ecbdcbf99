"""A provider as another package brings it: copied beside a `dist-info` that names it."""

from walagent.providers import Api, Build, Provider, WireFormat


def _load() -> Build:
    from .model import AcmeModel  # noqa: PLC0415

    return AcmeModel


def _load_wire() -> WireFormat:
    from .wire import ACME  # noqa: PLC0415

    return ACME


API = Api(("ACME_TOKEN",), "ACME_URL", "https://api.acme.example", ("acme.example",))
PROVIDER = Provider(name="acme", load=_load, api=API, load_wire=_load_wire)
