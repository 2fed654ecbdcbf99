"""The models of a worker, by the name that agents use: made once, limited per key."""

from collections.abc import Callable, Mapping

from walagent.agent.model import Model
from walagent.agent.models.limits import Limits
from walagent.errors import ModelUnavailableError
from walagent.message import ModelSpec


class Models:
    """Models by name, as the registry was when it was last read; `reload` tells of later rows."""

    def __init__(
        self, specs: Mapping[str, ModelSpec], build: Callable[[ModelSpec], Model], limits: Limits
    ) -> None:
        self._specs = dict(specs)
        self._build = build
        self._limits = limits
        self._made: dict[str, Model] = {}
        self._retired: list[Model] = []

    def get(self, name: str) -> Model:
        """Find a model.

        Raises:
            ModelUnavailableError: it was not in the registry, or not enabled, when that was last
                read; a row that has just been added is there at the next attempt.
            ModelUnauthorizedError: its credential is not there.
        """
        if name not in self._made:
            if name not in self._specs:
                raise ModelUnavailableError(f'model "{name}" is not in agent.model, or not enabled')
            self._made[name] = self._limits.wrap(self._build(self._specs[name]))
        return self._made[name]

    def reload(self, specs: Mapping[str, ModelSpec]) -> int:
        """Take the registry's present rows, and count those that changed.

        Models whose row changed are made anew; calls of the old ones end as they began.
        """
        known = self._specs.keys() | specs.keys()
        changed = [name for name in known if specs.get(name) != self._specs.get(name)]
        self._specs = dict(specs)
        self._retired.extend(self._made.pop(name) for name in changed if name in self._made)
        return len(changed)

    async def aclose(self) -> None:
        """Close every model."""
        for model in (*self._made.values(), *self._retired):
            await model.aclose()
        self._made.clear()
        self._retired.clear()
