"""Calls that are submitted to a provider together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchCall:
    """One call of a batch.

    Args:
        custom_id: names it in the results.
        body: of the request, as the provider takes it: JSON in ASCII.
    """

    custom_id: str
    body: str
