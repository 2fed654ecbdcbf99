"""The answers, worked out from the shop's rows by Python alone: one function for each question.

Nothing here knows SQL, so a statement and its function are wrong in the same way only if the
question is misread twice.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from itertools import pairwise
from statistics import mean, median
from zoneinfo import ZoneInfo

from evals.shop.rows import the_shop
from evals.shop.tables import Customer, Invoice, Payment, Product, Rental, Shop

Rows = list[tuple[object, ...]]
ANSWERS: dict[str, Callable[[Shop], Rows]] = {}


def answer_to(question: str) -> Rows:
    """Work the answer to a question out."""
    return ANSWERS[question](the_shop())


def _answer(work: Callable[[Shop], Rows]) -> Callable[[Shop], Rows]:
    ANSWERS[work.__name__] = work
    return work


# What several answers need.


def _counted(keys: Iterable[Hashable]) -> Rows:
    return [(*(key if isinstance(key, tuple) else (key,)), n) for key, n in Counter(keys).items()]


def _summed(pairs: Iterable[tuple[Hashable, Decimal]]) -> dict[Hashable, Decimal]:
    sums: defaultdict[Hashable, Decimal] = defaultdict(Decimal)
    for key, amount in pairs:
        sums[key] += amount
    return dict(sums)


def _rows_of(sums: Mapping[Hashable, object]) -> Rows:
    return list(sums.items())


def _active(shop: Shop) -> list[Customer]:
    return [each for each in shop.customer if each.deleted_at is None]


def _revenue(shop: Shop, year: int | None = None) -> Iterator[Invoice]:
    for each in shop.invoice:
        if each.state in {"open", "paid"} and year in {None, each.issued_on.year}:
            yield each


def _settled(shop: Shop) -> Iterator[Payment]:
    return (each for each in shop.payment if each.status == "settled")


@cache
def _settled_by_invoice() -> Mapping[Hashable, Decimal]:
    return _summed((each.invoice_id, each.amount) for each in _settled(the_shop()))


def _still_owed(invoice: Invoice) -> Decimal:
    return invoice.total - _settled_by_invoice().get(invoice.id, Decimal(0))


def _main(shop: Shop, product: Product) -> str:
    leaf = shop.category[product.category_id - 1]
    assert leaf.parent_id is not None
    return shop.category[leaf.parent_id - 1].name


def _film(shop: Shop, rental: Rental) -> Product:
    return shop.product[shop.inventory[rental.inventory_id - 1].product_id - 1]


def _store(shop: Shop, rental: Rental) -> str:
    return shop.store[shop.inventory[rental.inventory_id - 1].store_id - 1].name


def _percent(part: Decimal | int, whole: Decimal | int) -> Decimal:
    return Decimal(100) * part / whole


# Level 1.


@_answer
def active_customers(shop: Shop) -> Rows:
    return [(len(_active(shop)),)]


@_answer
def customers_by_country(shop: Shop) -> Rows:
    return _counted(each.country for each in _active(shop))


@_answer
def customers_without_email(shop: Shop) -> Rows:
    return [(sum(each.email is None for each in _active(shop)),)]


@_answer
def open_stores(shop: Shop) -> Rows:
    return [(each.name,) for each in shop.store if each.closed_on is None]


@_answer
def films_by_rating(shop: Shop) -> Rows:
    return _counted(each.rating for each in shop.product)


@_answer
def copies_out(shop: Shop) -> Rows:
    return [(sum(each.returned_at is None for each in shop.rental),)]


@_answer
def staff_by_role(shop: Shop) -> Rows:
    return _counted(each.role for each in shop.staff if each.left_on is None)


@_answer
def dearest_to_replace(shop: Shop) -> Rows:
    costs = Counter(each.replacement_cost for each in shop.product)
    return [max(costs.items())]


@_answer
def longest_films(shop: Shop) -> Rows:
    known = [each for each in shop.product if each.length_minutes is not None]
    known.sort(key=lambda each: (-(each.length_minutes or 0), each.id))
    return [(each.id, each.title, each.length_minutes) for each in known[:5]]


@_answer
def invoices_by_state_2024(shop: Shop) -> Rows:
    return _counted(each.state for each in shop.invoice if each.issued_on.year == 2024)


# Level 2.


@_answer
def rentals_by_main_category(shop: Shop) -> Rows:
    return _counted(_main(shop, _film(shop, each)) for each in shop.rental)


@_answer
def copies_by_store(shop: Shop) -> Rows:
    kept = (each for each in shop.inventory if each.retired_on is None)
    return _counted(shop.store[each.store_id - 1].name for each in kept)


@_answer
def films_without_copies(shop: Shop) -> Rows:
    return [(len(shop.product) - len({each.product_id for each in shop.inventory}),)]


@_answer
def films_never_rented(shop: Shop) -> Rows:
    stocked = {each.product_id for each in shop.inventory}
    return [(len(stocked - {_film(shop, each).id for each in shop.rental}),)]


@_answer
def top_renters(shop: Shop) -> Rows:
    often = Counter(each.customer_id for each in shop.rental)
    best = sorted(often.items(), key=lambda each: (-each[1], each[0]))[:10]
    return [
        (who, shop.customer[who - 1].first_name, shop.customer[who - 1].last_name, n)
        for who, n in best
    ]


@_answer
def customers_who_never_rented(shop: Shop) -> Rows:
    return [(len({each.id for each in _active(shop)} - {r.customer_id for r in shop.rental}),)]


@_answer
def average_length_by_main_category(shop: Shop) -> Rows:
    lengths: defaultdict[str, list[int]] = defaultdict(list)
    for each in shop.product:
        if each.length_minutes is not None:
            lengths[_main(shop, each)].append(each.length_minutes)
    return [(name, mean(each)) for name, each in lengths.items()]


@_answer
def people_led(shop: Shop) -> Rows:
    led = Counter(each.manager_id for each in shop.staff if each.left_on is None)
    managers = [each for each in shop.staff if each.manager_id is not None and led[each.id]]
    return [(each.id, each.last_name, led[each.id]) for each in managers]


@_answer
def shared_names(shop: Shop) -> Rows:
    named = Counter((each.first_name, each.last_name) for each in _active(shop))
    return [(*name, n) for name, n in named.items() if n >= 11]


@_answer
def icelanders(shop: Shop) -> Rows:
    return [(each.first_name, each.last_name) for each in _active(shop) if each.country == "IS"]


@_answer
def best_rated(shop: Shop) -> Rows:
    stars: defaultdict[int, list[int]] = defaultdict(list)
    for each in shop.review:
        stars[each.product_id].append(each.stars)
    many = [(mean(map(Decimal, given)), n) for n, given in stars.items() if len(given) >= 15]
    many.sort(key=lambda each: (-each[0], each[1]))
    return [(n, shop.product[n - 1].title, average) for average, n in many[:5]]


@_answer
def rentals_by_store_2024(shop: Shop) -> Rows:
    return _counted(_store(shop, each) for each in shop.rental if each.rented_at.year == 2024)


# Level 3.


@_answer
def revenue_by_currency_2024(shop: Shop) -> Rows:
    return _rows_of(_summed((each.currency, each.total) for each in _revenue(shop, 2024)))


@_answer
def money_in_2024(shop: Shop) -> Rows:
    came = (each for each in _settled(shop) if each.paid_at.year == 2024)
    return _rows_of(_summed((each.currency, each.amount) for each in came))


@_answer
def deposits(shop: Shop) -> Rows:
    found = [each for each in _settled(shop) if each.invoice_id is None]
    often = Counter(each.currency for each in found)
    sums = _summed((each.currency, each.amount) for each in found)
    return [(currency, often[currency], sums[currency]) for currency in often]


@_answer
def outstanding_by_currency(shop: Shop) -> Rows:
    waiting = (each for each in shop.invoice if each.state == "open")
    return _rows_of(_summed((each.currency, _still_owed(each)) for each in waiting))


@_answer
def paid_in_three_parts(shop: Shop) -> Rows:
    parts = Counter(each.invoice_id for each in _settled(shop) if each.invoice_id is not None)
    return [(sum(n >= 3 for n in parts.values()),)]


@_answer
def refunds_by_reason(shop: Shop) -> Rows:
    return _counted(each.reason for each in shop.refund)


@_answer
def refunds_by_currency(shop: Shop) -> Rows:
    of = {each.id: each.currency for each in shop.payment}
    return _rows_of(_summed((of[each.payment_id], -each.amount) for each in shop.refund))


@_answer
def refunded_share(shop: Shop) -> Rows:
    euros = {each.id: each.amount for each in _settled(shop) if each.currency == "EUR"}
    back = -sum(each.amount for each in shop.refund if each.payment_id in euros)
    return [(_percent(back, sum(euros.values())),)]


@_answer
def lines_and_totals(shop: Shop) -> Rows:
    lines = _summed((each.invoice_id, each.amount) for each in shop.invoice_line)
    off = ((each.number, each.total - lines[each.id]) for each in shop.invoice)
    return [(number, by) for number, by in off if by]


@_answer
def overpaid(shop: Shop) -> Rows:
    return [(i.number, -owed) for i in shop.invoice if (owed := _still_owed(i)) < 0]


@_answer
def several_homes(shop: Shop) -> Rows:
    alive = {each.id for each in _active(shop)}
    homes = Counter(each.customer_id for each in shop.address if each.valid_to is None)
    return [(sum(n > 1 and who in alive for who, n in homes.items()),)]


@_answer
def revenue_and_payments_by_segment(shop: Shop) -> Rows:
    francs = [each for each in _revenue(shop, 2025) if each.currency == "CHF"]
    asked = _summed((shop.customer[each.customer_id - 1].segment, each.total) for each in francs)
    owed = _summed((shop.customer[i.customer_id - 1].segment, _still_owed(i)) for i in francs)
    return [(segment, total, total - owed[segment]) for segment, total in asked.items()]


@_answer
def revenue_by_kind(shop: Shop) -> Rows:
    pounds = {each.id for each in _revenue(shop) if each.currency == "GBP"}
    lines = (each for each in shop.invoice_line if each.invoice_id in pounds)
    return _rows_of(_summed((each.kind, each.amount) for each in lines))


@_answer
def tags(shop: Shop) -> Rows:
    return list(Counter(tag for each in shop.product for tag in each.tags).most_common(3))


@_answer
def awarded_languages(shop: Shop) -> Rows:
    won: Counter[str] = Counter()
    for each in shop.product:
        won[each.details["language"]] += each.details.get("awards", 0)
    return list(won.items())


@_answer
def share_who_rented(shop: Shop) -> Rows:
    renting = {each.customer_id for each in shop.rental}
    alive = Counter(each.country for each in _active(shop))
    active = Counter(each.country for each in _active(shop) if each.id in renting)
    return [(country, _percent(active[country], n)) for country, n in alive.items()]


@_answer
def and_in_2025(shop: Shop) -> Rows:
    return _counted(_store(shop, each) for each in shop.rental if each.rented_at.year == 2025)


@_answer
def only_the_busiest(shop: Shop) -> Rows:
    return [max(and_in_2025(shop), key=lambda each: int(str(each[1])))]


@_answer
def revenue_by_segment(shop: Shop) -> Rows:
    euros = (each for each in _revenue(shop, 2025) if each.currency == "EUR")
    return _rows_of(_summed((shop.customer[i.customer_id - 1].segment, i.total) for i in euros))


# Level 4.


def _in_euro(shop: Shop) -> Callable[[str, date], Decimal]:
    rates = {(each.currency, each.month): each.to_eur for each in shop.exchange_rate}
    return lambda currency, day: rates[currency, day.replace(day=1)]


@_answer
def as_shares(shop: Shop) -> Rows:
    sums = {str(name): Decimal(str(total)) for name, total in revenue_by_segment(shop)}
    return [(name, _percent(total, sum(sums.values()))) for name, total in sums.items()]


@_answer
def revenue_in_euro_2024(shop: Shop) -> Rows:
    rate = _in_euro(shop)
    return [(sum(i.total * rate(i.currency, i.issued_on) for i in _revenue(shop, 2024)),)]


def _local(shop: Shop, rental: Rental) -> datetime:
    store = shop.store[shop.inventory[rental.inventory_id - 1].store_id - 1]
    return rental.rented_at.astimezone(ZoneInfo(store.time_zone))


@_answer
def new_years_eve(shop: Shop) -> Rows:
    last = date(2024, 12, 31)
    near = (each for each in shop.rental if abs((each.rented_at.date() - last).days) <= 1)
    return _counted(_store(shop, each) for each in near if _local(shop, each).date() == last)


@_answer
def evening_rentals(shop: Shop) -> Rows:
    chelsea = (each for each in shop.rental if _store(shop, each) == "New York Chelsea")
    hours = [at.hour for each in chelsea if (at := _local(shop, each)).year == 2025]
    return [(sum(hour >= 20 for hour in hours), sum(hour < 20 for hour in hours))]


@_answer
def top_films_by_main_category(shop: Shop) -> Rows:
    often = Counter(_film(shop, each).id for each in shop.rental if each.rented_at.year == 2025)
    places: defaultdict[str, Rows] = defaultdict(list)
    for film, n in sorted(often.items(), key=lambda each: (-each[1], each[0])):
        name = _main(shop, shop.product[film - 1])
        places[name].append((name, film, n))
    return [row for ranked in places.values() for row in ranked[:2]]


@_answer
def growth_2025(shop: Shop) -> Rows:
    euros = (each for each in _revenue(shop) if each.currency == "EUR")
    sums = _summed((f"{each.issued_on:%Y-%m}", each.total) for each in euros)
    months = sorted(str(month) for month in sums)
    grown = [(b, 100 * (sums[b] / sums[a] - 1)) for a, b in pairwise(months)]
    return [(month, by) for month, by in grown if month.startswith("2025")]


@_answer
def running_total(shop: Shop) -> Rows:
    dollars = [p for p in _settled(shop) if p.currency == "USD" and p.paid_at.year == 2025]
    ends = [datetime(2025, month, 1, tzinfo=UTC) for month in (4, 7, 10)]
    ends.append(datetime(2026, 1, 1, tzinfo=UTC))
    return [
        (n, sum((each.amount for each in dollars if each.paid_at < end), Decimal(0)))
        for n, end in enumerate(ends, 1)
    ]


@_answer
def median_days(shop: Shop) -> Rows:
    days: defaultdict[str, list[float]] = defaultdict(list)
    for each in shop.rental:
        if each.returned_at is not None:
            out = (each.returned_at - each.rented_at).total_seconds() / 86_400
            days[_film(shop, each).rating].append(out)
    return [(rating, round(median(out), 4)) for rating, out in days.items()]


@_answer
def every_quarter(shop: Shop) -> Rows:
    quarters: defaultdict[int, set[int]] = defaultdict(set)
    for each in shop.rental:
        if each.rented_at.year == 2024:
            quarters[each.customer_id].add((each.rented_at.month - 1) // 3)
    return [(sum(len(each) == 4 for each in quarters.values()),)]


def _rentals_of(shop: Shop) -> Mapping[int, Sequence[Rental]]:
    mine: defaultdict[int, list[Rental]] = defaultdict(list)
    for each in sorted(shop.rental, key=lambda each: (each.rented_at, each.id)):
        mine[each.customer_id].append(each)
    return mine


@_answer
def days_to_second_rental(shop: Shop) -> Rows:
    pairs = (each[:2] for each in _rentals_of(shop).values() if len(each) > 1)
    gaps = [(b.rented_at - a.rented_at).total_seconds() / 86_400 for a, b in pairs]
    return [(round(mean(gaps), 4),)]


@_answer
def longest_chain(shop: Shop) -> Rows:
    length: dict[int | None, int] = {None: 0}
    for each in shop.customer:  # who brought somebody came before
        length[each.id] = length[each.referred_by] + 1
    return [(max(length.values()),)]


@_answer
def overdue(shop: Shop) -> Rows:
    euros = [each for each in shop.invoice if each.state == "open" and each.currency == "EUR"]
    late = [each for each in euros if each.due_on < date(2025, 12, 31)]
    return [(len(late), sum(_still_owed(each) for each in late))]


# Level 5.


@_answer
def cohorts(shop: Shop) -> Rows:
    active = {each.customer_id for each in shop.rental if each.rented_at.year == 2024}
    new = [each for each in shop.customer if each.registered_at.year == 2023]
    quarter = {each.id: (each.registered_at.month + 2) // 3 for each in new}
    all_, rented = Counter(quarter.values()), Counter(quarter[n] for n in quarter.keys() & active)
    return [(n, all_[n], rented[n]) for n in sorted(all_)]


@_answer
def pareto(shop: Shop) -> Rows:
    euros = (each for each in _revenue(shop, 2024) if each.currency == "EUR")
    sums = sorted(_summed((each.customer_id, each.total) for each in euros).values(), reverse=True)
    half, reached = sum(sums) / 2, Decimal(0)
    for n, total in enumerate(sums, 1):
        reached += total
        if reached >= half:
            return [(n,)]
    raise AssertionError("half of a sum is reached")


@_answer
def utilisation(shop: Shop) -> Rows:
    out = {each.inventory_id for each in shop.rental if each.returned_at is None}
    kept = [each for each in shop.inventory if each.retired_on is None]
    owned = Counter(each.store_id for each in kept)
    away = Counter(each.store_id for each in kept if each.id in out)
    return [(shop.store[n - 1].name, _percent(away[n], owned[n])) for n in owned]


@_answer
def rentals_not_invoiced(shop: Shop) -> Rows:
    counted = {each.id for each in _revenue(shop)}
    invoiced = {each.rental_id for each in shop.invoice_line if each.invoice_id in counted}
    return _counted(each.rented_at.year for each in shop.rental if each.id not in invoiced)


@_answer
def revenue_by_store(shop: Shop) -> Rows:
    rate = _in_euro(shop)
    factor = {each.id: rate(each.currency, each.issued_on) for each in _revenue(shop, 2025)}
    lines = [each for each in shop.invoice_line if each.kind == "rental"]
    return _rows_of(
        _summed(
            (_store(shop, shop.rental[(line.rental_id or 0) - 1]), line.amount * factor[number])
            for line in lines
            if (number := line.invoice_id) in factor
        )
    )
