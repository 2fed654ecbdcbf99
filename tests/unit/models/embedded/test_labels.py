"""The arithmetic of choosing a label."""

import pytest

from walagent.models.embedded.labels import Label, nearest

NORTH, EAST, SOUTH = (0.0, 1.0), (1.0, 0.0), (0.0, -1.0)


def test_the_nearest_label_wins_and_the_odds_add_up() -> None:
    """Confidence is a share of one, the largest for the label that lies nearest."""
    choice = nearest((0.6, 0.8), [Label("n", NORTH), Label("e", EAST), Label("s", SOUTH)])
    assert choice is not None
    assert choice.name == "n"
    assert choice.confidence == choice.odds["n"] > choice.odds["e"] > choice.odds["s"]
    assert sum(choice.odds.values()) == pytest.approx(1)


def test_what_all_labels_have_in_common_does_not_count() -> None:
    """Vectors that all point roughly one way still differ."""
    labels = [Label("a", (0.99, 0.14, 0.0)), Label("b", (0.99, 0.0, 0.14))]
    choice = nearest((0.98, 0.2, 0.0), labels)
    assert choice is not None
    assert choice.name == "a"
    assert choice.confidence > 0.99


def test_examples_pull_a_label_towards_them() -> None:
    """A text like an example goes where the example went, whatever the descriptions say."""
    plain = [Label("n", NORTH), Label("e", EAST)]
    taught = [Label("n", NORTH), Label("e", EAST, ((0.6, 0.8), (0.6, 0.8)))]
    chosen = [nearest((0.66, 0.75), labels) for labels in (plain, taught)]
    assert [choice.name for choice in chosen if choice] == ["n", "e"]


def test_one_label_is_certain_and_none_is_no_choice() -> None:
    """Where there is nothing else to choose there is no doubt."""
    only = nearest(NORTH, [Label("only", EAST)])
    assert only is not None
    assert only.confidence == 1
    assert nearest(NORTH, []) is None
