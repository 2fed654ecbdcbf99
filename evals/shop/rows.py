"""The rows of the shop, by arithmetic alone: the same on every machine and every server.

`the_shop()` gives them as Python's values.  So an answer can be worked out twice: by PostgreSQL
from the tables, and by a few lines of Python from what the tables were made of.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import count
from math import isqrt
from typing import Any

from evals.shop.arithmetic import cents, pick
from evals.shop.money import make_deposits, make_invoices, make_payments, make_refunds
from evals.shop.tables import (
    Address,
    Category,
    Copy,
    Customer,
    ExchangeRate,
    Product,
    Rental,
    Review,
    Shop,
    Staff,
)
from evals.shop.words import (
    BEGIN,
    CITIES,
    COUNTRIES,
    END,
    FIRST,
    HOMES,
    LANGUAGES,
    LAST,
    RATE,
    RATINGS,
    STORES,
    TAGS,
    TITLES,
    TREE,
)

CUSTOMERS, PRODUCTS, COPIES, RENTALS, STAFF = 6_000, 1_000, 5_000, 30_000, 80


@cache
def the_shop() -> Shop:
    """Make all rows; it takes about a second, once."""
    customers = list(_customers())
    categories = list(_categories())
    products = list(_products(categories))
    copies = list(_copies())
    staff = list(_staff())
    rentals = list(_rentals(customers, copies, staff))
    invoices, lines = make_invoices(customers, products, copies, rentals)
    payments, invoices = make_payments(invoices)
    payments += make_deposits(customers, len(payments))
    return Shop(
        COUNTRIES, list(_rates()), STORES, staff, customers, list(_addresses(customers)),
        categories, products, copies, rentals, invoices, lines, payments,
        list(make_refunds(payments, invoices)), list(_reviews()),
    )  # fmt: skip


def months() -> Iterator[date]:
    """Give the first day of every month of the three years."""
    return (date(year, month, 1) for year in (2023, 2024, 2025) for month in range(1, 13))


def _rates() -> Iterator[ExchangeRate]:
    for n, month in enumerate(months()):
        for m, (currency, rate) in enumerate(RATE.items()):
            moved = 0 if currency == "EUR" else rate * (pick(101, n, 100 + m) - 50) // 1_000
            yield ExchangeRate(currency, month, Decimal(rate + moved) / 10_000)


def _staff() -> Iterator[Staff]:
    for n in range(1, STAFF + 1):
        store = (n - 1) % 10 + 1
        leads = n <= 10
        boss = None if n == 1 else 1 if leads else store
        hired = date(2018, 1, 1) + timedelta(pick(2_200, n, 1))
        left = None if leads or pick(4, n, 2) else hired + timedelta(200 + pick(400, n, 3))
        role = "manager" if leads else "driver" if pick(5, n, 4) == 0 else "clerk"
        first, last = FIRST[pick(30, n, 5)], LAST[pick(40, n, 6)]
        yield Staff(n, store, first, last, role, boss, hired, left)


def _customers() -> Iterator[Customer]:
    since = datetime(2021, 1, 1, tzinfo=UTC)
    for n in range(1, CUSTOMERS + 1):
        home = HOMES[pick(100, n, 10)]
        near = [each.id for each in STORES if each.country == home]
        at = since + timedelta(seconds=n * 24_000 + pick(20_000, n, 11))
        gone = END - timedelta(days=1 + pick(180, n, 12)) if n % 23 == 5 else None
        first, last = FIRST[pick(30, n, 13)], LAST[pick(40, n, 14)]
        email = None if pick(9, n, 15) == 0 else f"{first}.{last}.{n}@example.org".lower()
        store = near[pick(len(near), n, 16)] if near and pick(6, n, 17) else None
        segment = ["private", "private", "private", "private", "business", "school"][pick(6, n, 18)]
        by = 1 + pick(n - 1, n, 19) if n > 10 and pick(8, n, 20) == 0 else None
        born = None if pick(5, n, 21) == 0 else date(1940, 1, 1) + timedelta(pick(24_000, n, 22))
        yield Customer(n, first, last, email, home, store, segment, at, gone, by, born)


def _addresses(customers: Sequence[Customer]) -> Iterator[Address]:
    number = count(1)
    for each in customers:
        for k in range([1, 1, 1, 2, 2, 3, 0][pick(7, each.id, 30)]):
            city = CITIES[each.country][pick(len(CITIES[each.country]), each.id * 4 + k, 31)]
            code = None if pick(12, each.id * 4 + k, 32) == 0 else f"{pick(90_000, each.id, 33):05}"
            kind = "home" if k == 0 else ["home", "billing", "delivery"][pick(3, each.id + k, 34)]
            former = k > 0 and pick(3, each.id + k, 35) == 0
            until = date(2024, 1, 1) + timedelta(pick(700, each.id, 36)) if former else None
            yield Address(next(number), each.id, kind, city, code, until)


def _categories() -> Iterator[Category]:
    number = count(1)
    for main, below in TREE.items():
        yield (top := Category(next(number), main, None))
        for name in below:
            yield Category(next(number), name, top.id)


def _products(categories: Sequence[Category]) -> Iterator[Product]:
    leaves = [each.id for each in categories if each.parent_id is not None]
    for n in range(1, PRODUCTS + 1):
        words = (part[pick(len(part), n, 40 + k)] for k, part in enumerate(TITLES))
        tags = [each for k, each in enumerate(TAGS) if pick(7 + k, n, 50 + k) == 0]
        details: dict[str, Any] = {"language": LANGUAGES[pick(10, n, 43)]}
        details["subtitles"] = [each for k, each in enumerate(("de", "en", "fr")) if n >> k & 1]
        if pick(6, n, 44) == 0:
            details["awards"] = 1 + pick(5, n, 45)
        yield Product(
            n,
            "The " + " ".join(words).strip(),
            leaves[pick(12, n, 46)],
            None if pick(30, n, 47) == 0 else 1950 + pick(75, n, 48),
            RATINGS[pick(10, n, 49)],
            cents(99 + 50 * pick(9, n, 60)),
            cents(999 + 100 * pick(25, n, 61)),
            None if pick(20, n, 62) == 0 else 61 + pick(120, n, 63),
            tags,
            details,
            date(2024, 1, 1) + timedelta(pick(700, n, 65)) if pick(14, n, 64) == 0 else None,
        )


def _copies() -> Iterator[Copy]:
    stocked = [n for n in range(1, PRODUCTS + 1) if n % 40 != 7]
    for n in range(1, COPIES + 1):
        bought = date(2021, 6, 1) + timedelta(pick(500, n, 70))
        gone = date(2024, 6, 1) + timedelta(pick(500, n, 72)) if pick(11, n, 71) == 0 else None
        condition = ["new", "good", "good", "worn"][pick(4, n, 73)]
        product = stocked[pick(len(stocked), n, 74)]
        yield Copy(n, product, 1 + pick(10, n, 75), condition, bought, gone)


def _rentals(
    customers: Sequence[Customer], copies: Sequence[Copy], staff: Sequence[Staff]
) -> Iterator[Rental]:
    since = [each.registered_at for each in customers]
    free = {each.id: BEGIN for each in copies if each.product_id % 25 != 0}
    ids = list(free)
    clerks = {s.id: [each.id for each in staff if each.store_id == s.id] for s in STORES}
    step = (END - BEGIN).total_seconds() / RENTALS
    for n in range(1, RENTALS + 1):
        at = BEGIN + timedelta(seconds=int((n - 1) * step) + pick(int(step), n, 80))
        who = _renter(customers, bisect_right(since, at), n, at)
        copy = copies[_free_copy(copies, ids, free, n, at) - 1]
        due = at + timedelta([3, 3, 5, 7, 14][pick(5, n, 81)])
        back = _return(n, at, due)
        free[copy.id] = back or END
        by = clerks[copy.store_id]
        seller = by[pick(len(by), n, 82)] if pick(7, n, 83) else None
        shown = back if back and back < END else None
        yield Rental(n, copy.id, who, seller, at, due, shown)


def _renter(customers: Sequence[Customer], known: int, n: int, at: datetime) -> int:
    """Choose who rents: of those registered, some never, and some often."""
    chosen = known - 1 - isqrt(pick(known * known, n, 84))  # the earlier ones more often
    while True:
        one = customers[chosen]
        if one.id % 7 != 3 and (one.deleted_at is None or one.deleted_at > at):
            return one.id
        chosen = (chosen + 1) % known


def _free_copy(
    copies: Sequence[Copy], ids: Sequence[int], free: dict[int, datetime], n: int, at: datetime
) -> int:
    day = at.date()
    for k in count(pick(len(ids), n, 85)):
        one = ids[k % len(ids)]
        retired = copies[one - 1].retired_on
        if free[one] <= at and (retired is None or retired > day + timedelta(60)):
            return one
    raise AssertionError("a copy is free")


def _return(n: int, at: datetime, due: datetime) -> datetime | None:
    if pick(250, n, 86) == 0:
        return None
    if pick(4, n, 87) == 0:
        return due + timedelta(hours=1 + pick(240, n, 88))
    allowed = int((due - at).total_seconds())
    return at + timedelta(seconds=allowed // 4 + pick(allowed * 3 // 4, n, 89))


def _reviews() -> Iterator[Review]:
    seen: set[tuple[int, int]] = set()
    for n in range(1, 8_001):
        key = 1 + pick(PRODUCTS - 50, n, 130), 1 + pick(CUSTOMERS, n, 131)
        if key in seen:
            continue
        seen.add(key)
        stars = [1, 2, 3, 3, 4, 4, 4, 5, 5, 5][pick(10, n, 132)]
        body = None if pick(3, n, 133) else ["Good.", "Too long.", "Again!"][pick(3, n, 134)]
        yield Review(*key, stars, date(2023, 1, 1) + timedelta(pick(1_090, n, 135)), body)
