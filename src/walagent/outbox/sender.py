"""What sends a message through a kind of channel."""

from typing import Protocol

from walagent.store.outbox import Delivery


class Sender(Protocol):
    """Sends messages through one kind of channel."""

    async def send(self, delivery: Delivery, link: str | None) -> str:
        """Send a message; return what the receiver answered, briefly.

        Args:
            link: the address of the page that decides the approval it is about.

        Raises:
            DeliveryDelayedError: it was not accepted now, or it is harmless to send it again.
            DeliveryRefusedError: it is not accepted permanently.
            OutcomeUnknownError: it might have been accepted.
        """
        ...
