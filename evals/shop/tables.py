"""What the rows of each table are; the fields have the columns' names, in their order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple


class Country(NamedTuple):
    """A row of `country`."""

    code: str
    name: str
    currency: str


class ExchangeRate(NamedTuple):
    """A row of `exchange_rate`."""

    currency: str
    month: date
    to_eur: Decimal


class Store(NamedTuple):
    """A row of `store`."""

    id: int
    name: str
    country: str
    city: str
    time_zone: str
    opened_on: date
    closed_on: date | None


class Staff(NamedTuple):
    """A row of `staff`."""

    id: int
    store_id: int
    first_name: str
    last_name: str
    role: str
    manager_id: int | None
    hired_on: date
    left_on: date | None


class Customer(NamedTuple):
    """A row of `customer`."""

    id: int
    first_name: str
    last_name: str
    email: str | None
    country: str
    store_id: int | None
    segment: str
    registered_at: datetime
    deleted_at: datetime | None
    referred_by: int | None
    birth_date: date | None


class Address(NamedTuple):
    """A row of `address`."""

    id: int
    customer_id: int
    kind: str
    city: str
    postal_code: str | None
    valid_to: date | None


class Category(NamedTuple):
    """A row of `category`."""

    id: int
    name: str
    parent_id: int | None


class Product(NamedTuple):
    """A row of `product`."""

    id: int
    title: str
    category_id: int
    released: int | None
    rating: str
    daily_rate: Decimal
    replacement_cost: Decimal
    length_minutes: int | None
    tags: list[str]
    details: dict[str, Any]
    discontinued_on: date | None


class Copy(NamedTuple):
    """A row of `inventory`."""

    id: int
    product_id: int
    store_id: int
    condition: str
    bought_on: date
    retired_on: date | None


class Rental(NamedTuple):
    """A row of `rental`."""

    id: int
    inventory_id: int
    customer_id: int
    staff_id: int | None
    rented_at: datetime
    due_at: datetime
    returned_at: datetime | None


class Invoice(NamedTuple):
    """A row of `invoice`."""

    id: int
    number: str
    customer_id: int
    issued_on: date
    due_on: date
    currency: str
    state: str
    total: Decimal


class Line(NamedTuple):
    """A row of `invoice_line`."""

    invoice_id: int
    line: int
    rental_id: int | None
    kind: str
    quantity: int
    unit_price: Decimal
    amount: Decimal


class Payment(NamedTuple):
    """A row of `payment`."""

    id: int
    invoice_id: int | None
    customer_id: int
    method: str
    status: str
    currency: str
    amount: Decimal
    paid_at: datetime


class Refund(NamedTuple):
    """A row of `refund`."""

    id: int
    payment_id: int
    amount: Decimal
    refunded_at: datetime
    reason: str | None


class Review(NamedTuple):
    """A row of `review`."""

    product_id: int
    customer_id: int
    stars: int
    written_on: date
    body: str | None


@dataclass(frozen=True, slots=True)
class Shop:
    """All rows; the fields are the tables' names, in an order in which they can be filled."""

    country: Sequence[Country]
    exchange_rate: Sequence[ExchangeRate]
    store: Sequence[Store]
    staff: Sequence[Staff]
    customer: Sequence[Customer]
    address: Sequence[Address]
    category: Sequence[Category]
    product: Sequence[Product]
    inventory: Sequence[Copy]
    rental: Sequence[Rental]
    invoice: Sequence[Invoice]
    invoice_line: Sequence[Line]
    payment: Sequence[Payment]
    refund: Sequence[Refund]
    review: Sequence[Review]

    def tables(self) -> Iterator[tuple[str, Sequence[tuple[Any, ...]]]]:
        """Give each table with its rows."""
        for each in fields(self):
            yield each.name, getattr(self, each.name)
