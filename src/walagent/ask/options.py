"""How a question is worked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from walagent.ask.candidates import MOST as MOST_CANDIDATES
from walagent.errors import ConfigError
from walagent.message import Json

MAX_REPLANS: Final = 2  # after a statement that failed, unless the question says otherwise
MOST_RETRIES: Final = 10  # each is a call of the model


@dataclass(frozen=True, slots=True)
class Options:
    """How a question is worked.

    Args:
        parallel: whether independent steps are carried out side by side.
        critic: whether the critic reviews plans of several steps, and results with findings;
            "always": all results.
        retries: maximum replans after failed statements.
        candidates: plans to ask for; the most common result is used.
        alone: whether the question is answered without the earlier ones of its session, and without
            the statement that was saved for it.
    """

    parallel: bool = True
    critic: bool | Literal["always"] = True
    retries: int = MAX_REPLANS
    candidates: int = 1
    alone: bool = False

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: a value is out of range.
        """
        if not 0 <= self.retries <= MOST_RETRIES:
            raise ConfigError(f"retries must be 0 to {MOST_RETRIES}, not {self.retries}")
        if self.critic not in {True, False, "always"}:
            raise ConfigError(f'critic must be true, false or "always", not {self.critic!r}')
        if not 1 <= self.candidates <= MOST_CANDIDATES:
            raise ConfigError(f"candidates must be 1 to {MOST_CANDIDATES}, not {self.candidates}")

    def to_json(self) -> dict[str, Json]:
        """Write what a later process must know to continue."""
        return {
            "parallel": self.parallel,
            "critic": self.critic,
            "retries": self.retries,
            "candidates": self.candidates,
            "alone": self.alone,
        }

    def with_recorded(self, document: Mapping[str, Json]) -> "Options":
        """Give those that a question was asked with; what is not recorded stays as it is here."""
        known = self.to_json().keys() & document.keys()
        return replace(self, **{name: document[name] for name in known})
