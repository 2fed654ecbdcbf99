"""The models of a worker, by the name that agents use: made once, limited per key."""

from collections.abc import Callable, Mapping

from walagent.agent.model import Model
from walagent.agent.models.limits import Limits
from walagent.errors import WalagentError
from walagent.message import ModelSpec


class Models:
    """Models by name.  A name that is not known yet is looked up again when runs ask for it."""

    def __init__(
        self, specs: Mapping[str, ModelSpec], build: Callable[[ModelSpec], Model], limits: Limits
    ) -> None:
        self._specs = dict(specs)
        self._build = build
        self._limits = limits
        self._made: dict[str, Model] = {}

    def get(self, name: str) -> Model:
        """Find a model.

        Raises:
            WalagentError: it is not in the registry, or not enabled.
            ModelUnauthorizedError: its credential is not there.
        """
        if name not in self._made:
            if name not in self._specs:
                raise WalagentError(f'model "{name}" is not in agent.model, or not enabled')
            self._made[name] = self._limits.wrap(self._build(self._specs[name]))
        return self._made[name]

    def reload(self, specs: Mapping[str, ModelSpec]) -> list[Model]:
        """Take the registry's present rows; models whose row changed are made anew.

        Returns:
            the models that are not used any more, to be closed when their calls have ended.
        """
        changed = [name for name in self._made if specs.get(name) != self._specs.get(name)]
        self._specs = dict(specs)
        return [self._made.pop(name) for name in changed]

    async def aclose(self) -> None:
        """Close every model."""
        for model in self._made.values():
            await model.aclose()
        self._made.clear()
