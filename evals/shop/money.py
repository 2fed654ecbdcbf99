"""Invoices of the rentals, and what became of them: payments, deposits, refunds."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count

from evals.shop.arithmetic import cents, pick
from evals.shop.tables import Copy, Customer, Invoice, Line, Payment, Product, Refund, Rental
from evals.shop.words import BEGIN, CURRENCY, END, LOCAL, METHODS


def make_invoices(
    customers: Sequence[Customer],
    products: Sequence[Product],
    copies: Sequence[Copy],
    rentals: Sequence[Rental],
) -> tuple[list[Invoice], list[Line]]:
    """Give invoices and their lines, in the order of issue; all are open or void."""
    found: list[tuple[date, int, list[Rental]]] = []
    for who, group in _groups(rentals):
        issued = group[-1].rented_at.date() + timedelta(1)
        if issued < END.date():
            found.append((issued, who, group))
    found.sort(key=lambda each: (each[0], each[1]))
    invoices: list[Invoice] = []
    lines: list[Line] = []
    for n, (issued, who, group) in enumerate(found, 1):
        customer = customers[who - 1]
        currency = CURRENCY[customer.country]
        mine = list(_lines(n, currency, products, copies, group))
        lines += mine
        total = sum(each.amount for each in mine) + (Decimal(5) if n % 1_999 == 11 else 0)
        due = issued + timedelta(30 if customer.segment == "business" else 14)
        number = f"R-{issued.year}-{n:06}"
        state = "void" if pick(33, n, 90) == 0 else "open"
        invoices.append(Invoice(n, number, who, issued, due, currency, state, Decimal(total)))
    return invoices, lines


def _groups(rentals: Sequence[Rental]) -> Iterator[tuple[int, list[Rental]]]:
    """Give what goes on one invoice: one to four rentals of a customer; a few go on none."""
    waiting: defaultdict[int, list[Rental]] = defaultdict(list)
    for each in rentals:
        if each.id % 97 == 0:
            continue
        mine = waiting[each.customer_id]
        mine.append(each)
        if len(mine) > pick(4, each.id, 91):
            yield each.customer_id, waiting.pop(each.customer_id)


def _lines(
    invoice: int,
    currency: str,
    products: Sequence[Product],
    copies: Sequence[Copy],
    group: Sequence[Rental],
) -> Iterator[Line]:
    number = count(1)
    sum_ = 0
    for each in group:
        product = products[copies[each.inventory_id - 1].product_id - 1]
        price = int(product.daily_rate * 100) * LOCAL[currency] // 100
        asked = [("rental", (each.due_at - each.rented_at).days, price)]
        if each.returned_at and each.returned_at > each.due_at:
            asked.append(("late_fee", (each.returned_at - each.due_at).days + 1, price // 2))
        if pick(60, each.id, 92) == 0:
            asked.append(("damage", 1, int(product.replacement_cost * 50)))
        for kind, quantity, unit in asked:
            sum_ += quantity * unit
            yield _line(invoice, next(number), each.id, kind, quantity, unit)
    if pick(8, invoice, 93) == 0:
        yield _line(invoice, next(number), None, "discount", 1, -(sum_ // 10))


def _line(  # noqa: PLR0913, PLR0917 - the columns
    invoice: int, line: int, rental: int | None, kind: str, quantity: int, unit: int
) -> Line:
    return Line(invoice, line, rental, kind, quantity, cents(unit), cents(quantity * unit))


def make_payments(invoices: Sequence[Invoice]) -> tuple[list[Payment], list[Invoice]]:
    """Give payments, and the invoices with the state that these leave them in."""
    payments: list[Payment] = []
    decided: list[Invoice] = []
    for each in invoices:
        mine = list(_payments_of(each)) if each.total > 0 else []
        for status, amount, at in mine:
            method = METHODS[pick(7, len(payments) + 1, 94)]
            row = (each.id, each.customer_id, method, status, each.currency, amount, at)
            payments.append(Payment(len(payments) + 1, *row))
        settled = sum(amount for status, amount, _ in mine if status == "settled")
        decided.append(each._replace(state=_state(each, Decimal(settled))))
    return payments, decided


def _state(invoice: Invoice, settled: Decimal) -> str:
    if invoice.state == "void":
        return "void"
    if invoice.issued_on >= date(2025, 12, 29) and not settled:
        return "draft"
    return "paid" if settled >= invoice.total else "open"


def _payments_of(invoice: Invoice) -> Iterator[tuple[str, Decimal, datetime]]:
    n = invoice.id
    at = datetime.combine(invoice.issued_on, datetime.min.time(), UTC)
    at += timedelta(days=1 + pick(25, n, 95), seconds=pick(86_400, n, 96))
    if (invoice.state == "void" and pick(4, n, 97)) or pick(12, n, 98) == 0:
        return
    parts = [1, 1, 1, 1, 1, 1, 1, 2, 2, 3][pick(10, n, 99)]
    left = invoice.total
    if pick(30, n, 100) == 0 and at < END:
        yield "failed", left, at - timedelta(hours=12)
    for k in range(parts):
        when = at + timedelta(days=20 * k)
        amount = left if k == parts - 1 else (left / (parts - k)).quantize(Decimal("0.01"))
        left -= amount
        if amount <= 0 or when >= END or (k and pick(25, n, 101) == 0):
            return
        yield ("pending" if when >= END - timedelta(3) else "settled"), amount, when
    if n % 1_301 == 77 and at + timedelta(50) < END:
        yield "settled", invoice.total, at + timedelta(50)  # by mistake, a second time


def make_deposits(customers: Sequence[Customer], number: int) -> list[Payment]:
    """Give payments that belong to no invoice; their numbers follow *number*."""
    made: list[Payment] = []
    for n in range(1, 421):
        who = customers[pick(len(customers), n, 110)]
        at = max(BEGIN, who.registered_at) + timedelta(hours=1 + pick(2_000, n, 111))
        amount = cents(2_000 + 500 * pick(7, n, 112))
        status = "failed" if n % 60 == 0 else "settled"
        row = (None, who.id, "card", status, CURRENCY[who.country], amount, at)
        made.append(Payment(number + n, *row))
    return made


def make_refunds(payments: Sequence[Payment], invoices: Sequence[Invoice]) -> Iterator[Refund]:
    """Give what was paid back: all of void invoices, and half of some other payments."""
    number = count(1)
    for each in payments:
        if each.status != "settled":
            continue
        void = each.invoice_id is not None and invoices[each.invoice_id - 1].state == "void"
        at = each.paid_at + timedelta(days=2 + pick(20, each.id, 120))
        if at >= END or not (void or pick(50, each.id, 121) == 0):
            continue
        amount = each.amount if void else (each.amount / 2).quantize(Decimal("0.01"))
        reason = [None, "damaged", "damaged", "wrong film", "goodwill"][pick(5, each.id, 122)]
        yield Refund(next(number), each.id, -amount, at, reason)
