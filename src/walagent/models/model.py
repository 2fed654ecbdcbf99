"""The one thing a model must do."""

from typing import Protocol

from walagent.message import ModelSpec, Reply, Request


class Model(Protocol):
    """A model behind one coroutine.

    An implementation keeps no state between calls and does not retry: waiting and trying again
    belong to the worker, which also holds the lease and the budget.
    """

    @property
    def spec(self) -> ModelSpec:
        """The registry's row for this model."""
        ...

    async def complete(self, request: Request) -> Reply:
        """Answer *request*.

        Raises:
            ModelUnavailableError: overloaded, timed out, unreachable or cut off; worth a retry.
            ModelLimitedError: the provider asks to wait; costs no attempt.
            ModelRejectedError: the provider will never take this request.
            ModelUnauthorizedError: the credential is missing, wrong or spent.
        """
        ...

    async def aclose(self) -> None:
        """Give connections back."""
        ...
