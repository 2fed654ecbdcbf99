"""Whether a difference between two versions is more than chance.  Pure."""

from math import comb


def sign_test(better: int, worse: int) -> float:
    """Return the exact two-sided p-value of McNemar's test.

    Cases on which both versions are right, or both wrong, say nothing about which is better.  If
    the others fell to either side like a coin, a split at least as uneven has this probability.

    Args:
        better: cases on which only the second version is right.
        worse: cases on which only the first one is.
    """
    count = better + worse
    tail = sum(comb(count, k) for k in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**count)
