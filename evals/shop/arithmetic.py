"""Numbers that look like chance and are none."""

from decimal import Decimal


def pick(size: int, n: int, salt: int) -> int:
    """Give a number below *size* that looks like chance and is none.

    Args:
        n: which one of a series.
        salt: which series.
    """
    mixed = (n * 0x9E3779B97F4A7C15 + salt * 0xC2B2AE3D27D4EB4F) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (mixed ^ (mixed >> 31)) % size


def cents(amount: int) -> Decimal:
    """Give an amount in hundredths as what it is."""
    return Decimal(amount) / 100
