"""Which tables a question is about, when there are too many to show them all.

Words are matched by BM25 over names, columns, comments and values, split as people join them
(`custOrderLines`, `cust_order_lines`); a word that nothing knows is matched by its trigrams, which
forgives abbreviations and slips.  Tables that a foreign key joins to good ones gain from that.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Table = Mapping[str, Any]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_FILLER: Final = """
    a all an and any are as at be been by did do does each every few for from had has have how i in
    is it its last list many me most much my number of on or our per show than that the their them
    there these they this those to top total was we were what when where which who whose why will
    with you your give find get count average sum id
"""
_STOP: Final = frozenset(_FILLER.split())
_K, _B = 1.2, 0.5  # BM25: how fast a repeated word stops counting, and how much long tables lose
_NAME, _COMMENT, _COLUMN, _VALUE = 4.0, 2.0, 1.0, 0.5  # how much a word counts by where it stands
_NEIGHBOUR: Final = 0.25  # of a table's score goes to those that it is joined with
_ENDINGS: Final = (
    ("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", ""),
)  # fmt: skip
_COPY: Final = 0.4  # of its score is left to what looks like a copy of another table
_COPIES: Final = re.compile(
    r"(^|_)(stg|staging|tmp|temp|bak|backup|arch|archive|hist|history|old|audit|log|changes|import|raw"
    r"|snapshot|copy|rpt|reporting|(19|20)\d\d)(_|$)"
)
_ALIKE: Final = 0.3  # from this likeness on, two words may be the same one


@dataclass(frozen=True, slots=True)
class _Document:
    words: Mapping[str, float]
    length: float


class Index:
    """The tables of a schema, to be ranked for questions.  Pure; built for each schema."""

    def __init__(self, tables: Sequence[Table]) -> None:
        """Read the tables, as `store.schema.read_schema` gives them."""
        self._titles = [f"{table['schema']}.{table['name']}" for table in tables]
        self._documents = [_document(table) for table in tables]
        self._copies = [_copy_words(table) for table in tables]
        lengths = [document.length for document in self._documents]
        self._average = sum(lengths) / len(lengths) if lengths else 1.0
        self._holders: dict[str, list[int]] = defaultdict(list)
        for n, document in enumerate(self._documents):
            for word in document.words:
                self._holders[word].append(n)
        self._trigrams = {word: trigrams(word) for word in self._holders}
        self._joined = _joined(tables, self._titles)

    def rank(self, question: str, most: int = 20) -> Sequence[str]:
        """Give the titles of the tables that a question is likely about, the likeliest first."""
        scores: dict[int, float] = defaultdict(float)
        for word, weight in self._known(question):
            for n in self._holders[word]:
                scores[n] += weight * self._score(word, n)
        asked = set(words(question))
        for n in scores:
            if self._copies[n] and not self._copies[n] & asked:
                scores[n] *= _COPY
        shared = dict(scores)
        for n, score in scores.items():
            for neighbour in self._joined.get(n, ()):
                shared[neighbour] = shared.get(neighbour, 0.0) + _NEIGHBOUR * score
        best = sorted(shared, key=lambda n: (-shared[n], self._titles[n]))
        return [self._titles[n] for n in best[:most]]

    def central(self, most: int) -> Sequence[str]:
        """Give the titles of the tables that most others are joined with, copies last."""
        order = sorted(
            range(len(self._titles)),
            key=lambda n: (bool(self._copies[n]), -len(self._joined.get(n, ())), self._titles[n]),
        )
        return [self._titles[n] for n in order[:most]]

    def part_known(self, question: str) -> float:
        """Say which part of a question's words stand in the schema as they are."""
        asked = set(words(question))
        return len(asked & self._holders.keys()) / len(asked) if asked else 1.0

    def _known(self, question: str) -> Iterator[tuple[str, float]]:
        """Give the schema's own words for the question's, with how sure that is."""
        for word in dict.fromkeys(words(question)):
            if word in self._holders:
                yield word, 1.0
            else:
                yield from self._alike(word)

    def _alike(self, word: str) -> Iterator[tuple[str, float]]:
        mine = trigrams(word)
        likeness = (
            (known, len(mine & theirs) / len(mine | theirs))
            for known, theirs in self._trigrams.items()
        )
        close = sorted((each for each in likeness if each[1] >= _ALIKE), key=lambda e: -e[1])
        yield from close[:5]

    def _score(self, word: str, n: int) -> float:
        document = self._documents[n]
        rarity = math.log(1 + len(self._documents) / len(self._holders[word]))
        often = document.words[word]
        return (
            rarity
            * often
            * (_K + 1)
            / (often + _K * (1 - _B + _B * document.length / self._average))
        )


def words(text: str) -> Iterator[str]:
    """Split a text into words as they are matched: lower case, without endings, none of filler."""
    for part in _WORD.findall(text):
        lowered = part.lower()
        if lowered not in _STOP:
            yield stem(lowered)


def stem(word: str) -> str:
    """Take off what a word's forms differ in; rough, and the same for both sides."""
    for ending, instead in _ENDINGS:
        kept = word[: -len(ending)] + instead
        if word.endswith(ending) and len(kept) > 2 and not word.endswith("ss"):  # noqa: PLR2004
            word = kept
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004


def trigrams(word: str) -> frozenset[str]:
    """Give the trigrams of a word, its ends marked, as pg_trgm does."""
    padded = f"  {word} "
    return frozenset(padded[n : n + 3] for n in range(len(padded) - 2))


def _copy_words(table: Table) -> frozenset[str]:
    """Give the words of a table's names that make it look like a copy: stg, history, 2019."""
    found = (_COPIES.finditer(name.lower()) for name in (table["schema"], table["name"]))
    return frozenset(stem(each.group(2)) for many in found for each in many)


def _document(table: Table) -> _Document:
    counted: Counter[str] = Counter()
    for text, weight in _texts(table):
        for word in words(text):
            counted[word] += weight  # pyright: ignore[reportArgumentType] - weights are no whole numbers
    return _Document(counted, float(sum(counted.values())))


def _texts(table: Table) -> Iterable[tuple[str, float]]:
    yield table["name"], _NAME
    yield table["schema"], _COMMENT
    yield table["comment"] or "", _COMMENT
    for column in table["columns"] or ():
        yield column["name"], _COLUMN
        yield column["comment"] or "", _COLUMN
        for value in (*(column["values"] or ()), *(column.get("samples") or ())):
            yield value, _VALUE


def _joined(tables: Sequence[Table], titles: Sequence[str]) -> Mapping[int, set[int]]:
    """Give for each table those that a foreign key joins it with, either way."""
    at = {title: n for n, title in enumerate(titles)}
    joined: dict[int, set[int]] = defaultdict(set)
    for n, table in enumerate(tables):
        for each in table["references"] or ():
            other = at.get(f"{each['schema']}.{each['table']}")
            if other is not None and other != n:
                joined[n].add(other)
                joined[other].add(n)
    return joined
