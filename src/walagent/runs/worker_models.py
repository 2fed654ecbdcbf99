"""The models of a worker, by the name that agents use: made once, each with its limiter.

A run is given the model of its own tenant, or else the shared one: never one of another tenant,
whose key would be used.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

from walagent.errors import (
    ConfigError,
    ModelMissingError,
    ModelUnauthorizedError,
    PreconditionError,
)
from walagent.message import ModelSpec, label_of
from walagent.models import prepare
from walagent.models.limits import LimitedModel, Limiter, ModelLimits
from walagent.models.model import Model
from walagent.telemetry import metrics

_SHARE = 4  # see `Models.tight`


class Models:
    """Models by label, as the registry was when it was last read; `reload` reads it again."""

    def __init__(
        self,
        specs: Mapping[str, ModelSpec],
        build: Callable[[ModelSpec], Model],
        limits: ModelLimits,
    ) -> None:
        self._specs = dict(specs)
        self._build = build
        self._limits = limits
        self._made: dict[str, LimitedModel] = {}
        self._retired: list[LimitedModel] = []

    def label(self, name: str, tenant: str = "") -> str:
        """Return the label of the model of a name for a tenant: its own, or the shared one."""
        own = label_of(name, tenant)
        spec = self._specs.get(own)
        return own if spec is not None and spec.tenant == tenant else name

    def get(self, name: str, tenant: str = "") -> Model:
        """Return the model of a name for a tenant.

        A model whose key was refused is created again: the key might have changed.

        Raises:
            ModelMissingError: it was not in the registry, or not enabled, when that was last
                read; a row that was just added is found at the next attempt.
            ModelUnauthorizedError: its credential is not set, or it cannot be built as it is
                configured: every run would fail.
        """
        label = self.label(name, tenant)
        spec = self._specs.get(label)
        if spec is None or not spec.enabled or spec.tenant not in {"", tenant}:
            raise ModelMissingError(f'model "{name}" is not in agent.model, or not enabled')
        made = self._made.get(label)
        if made is not None and not made.refused:
            return made
        try:
            model = self._limits.wrap(self._build(spec))
        except (ConfigError, PreconditionError) as error:
            raise ModelUnauthorizedError(str(error), hint=error.hint) from error
        _show(label, model.limiter)
        if made is not None:
            self._retired.append(made)
        self._made[label] = model
        return model

    async def prepare(self, name: str, tenant: str = "") -> None:
        """Import a model's provider, so that the first `get` is fast."""
        label = self.label(name, tenant)
        if label in self._specs and label not in self._made:
            await prepare(self._specs[label].provider)

    def tight(self, slots: int) -> Mapping[str, int]:
        """Return, by label, how many runs of a model a worker can hold, if fewer than *slots*.

        That is the number of calls that its limiter allows.  If several models are in use, none
        gets the last quarter of the slots: a provider that takes minutes to fail would occupy all
        of them, and the runs of the other models would wait.
        """
        share = slots - slots // _SHARE if len(self._made) > 1 else slots
        most = {name: min(share, made.limiter.most) for name, made in self._made.items()}
        return {name: runs for name, runs in most.items() if runs < slots}

    def is_out(self, label: str) -> bool:
        """Return whether runs that have a fall-back need not wait for a model."""
        made = self._made.get(label)
        return made is not None and made.limiter.is_out

    def reload(self, specs: Mapping[str, ModelSpec], *, again: bool = False) -> int:
        """Replace the registry's rows; return how many changed.

        Models whose row changed are created again; calls in flight end with the old ones.

        Args:
            again: create all models again, with the keys and files that they have now.

        Raises:
            ConfigError: with *again*, a model cannot be created; nothing has changed.
        """
        made = self._made_again(specs if again else {})
        known = self._specs.keys() | specs.keys()
        changed = [name for name in known if specs.get(name) != self._specs.get(name)]
        self._specs = dict(specs)
        for name in {*changed, *made} & self._made.keys():
            self._retired.append(self._made.pop(name))
        self._made.update(made)
        return len(changed)

    def _made_again(self, specs: Mapping[str, ModelSpec]) -> Mapping[str, LimitedModel]:
        made: dict[str, LimitedModel] = {}
        for name in self._made.keys() & specs.keys():
            with suppress(ModelUnauthorizedError):  # its key is gone: the model of before is kept
                made[name] = self._limits.wrap(self._build(specs[name]))
                _show(name, made[name].limiter)
        return made

    async def close_retired(self) -> None:
        """Close replaced models whose last call has ended."""
        for model in [model for model in self._retired if not model.calls]:
            self._retired.remove(model)
            await model.aclose()

    async def aclose(self) -> None:
        """Close every model."""
        for model in (*self._made.values(), *self._retired):
            await model.aclose()
        self._made.clear()
        self._retired.clear()


def _show(name: str, limiter: Limiter) -> None:
    """Connect the gauges of a model to its limiter."""
    metrics.model_calls_allowed.labels(name).set_function(lambda: limiter.most)
    metrics.model_calls_in_flight.labels(name).set_function(lambda: limiter.in_flight)
    metrics.model_breaker_open.labels(name).set_function(lambda: limiter.is_open)
