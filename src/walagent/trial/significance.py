"""Whether a difference between two versions is more than chance.  Pure."""


def sign_test(better: int, worse: int) -> float:
    """Return the exact two-sided p-value of McNemar's test.

    Cases on which both versions are right, or both wrong, say nothing about which is better.  If
    the others fell to either side like a coin, a split at least as uneven has this probability.

    Args:
        better: cases on which only the second version is right.
        worse: cases on which only the first one is.
    """
    count = better + worse
    tail = term = (
        1  # binomial coefficients, each from the one before: comb() would begin at the first
    )
    for k in range(1, min(better, worse) + 1):
        term = term * (count - k + 1) // k
        tail += term
    return min(1.0, 2 * tail / 2**count)
