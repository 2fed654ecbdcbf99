-- A chain of shops that rent films out, in ten countries and five currencies.  `rows.py` fills it.

create type film_rating as enum ('all', '6', '12', '16', '18');
create type staff_role as enum ('manager', 'clerk', 'driver');
create type invoice_state as enum ('draft', 'open', 'paid', 'void');
create type payment_method as enum ('card', 'transfer', 'cash', 'direct_debit');
create type payment_status as enum ('settled', 'pending', 'failed');

create table country (
    code     text primary key check (length(code) = 2),
    name     text not null unique,
    currency text not null check (currency in ('EUR', 'CHF', 'GBP', 'SEK', 'USD'))
);
comment on column country.currency is 'In which customers of the country are invoiced and pay.';

create table exchange_rate (
    currency text not null,
    month    date not null check (extract(day from month) = 1),
    to_eur   numeric(10, 4) not null check (to_eur > 0),
    primary key (currency, month)
);
comment on table exchange_rate is 'One rate for each currency and month, also for EUR: amount * to_eur is the amount in euro.';

create table store (
    id        integer primary key,
    name      text not null unique,
    country   text not null references country,
    city      text not null,
    time_zone text not null,
    opened_on date not null,
    closed_on date
);
comment on column store.time_zone is 'IANA name. A day at the store begins at its own midnight.';
comment on column store.closed_on is 'NULL while the store is open.';

create table staff (
    id         integer primary key,
    store_id   integer not null references store,
    first_name text not null,
    last_name  text not null,
    role       staff_role not null,
    manager_id integer references staff,
    hired_on   date not null,
    left_on    date
);
comment on column staff.left_on is 'NULL for who works here still.';
comment on column staff.manager_id is 'Whom the person reports to; NULL for the head of the company.';

create table customer (
    id            integer primary key,
    first_name    text not null,
    last_name     text not null,
    email         text,
    country       text not null references country,
    store_id      integer references store,
    segment       text not null check (segment in ('private', 'business', 'school')),
    registered_at timestamptz not null,
    deleted_at    timestamptz,
    referred_by   integer references customer,
    birth_date    date
);
comment on table customer is 'Names are not unique. Whoever asks for customers means those that are not deleted, but rentals and invoices of deleted ones count.';
comment on column customer.deleted_at is 'NULL for customers that there are; a deleted one keeps its row.';
comment on column customer.store_id is 'The store where the customer registered; NULL for those who did so on the web.';
comment on column customer.referred_by is 'The customer who brought this one.';

create table address (
    id          integer primary key,
    customer_id integer not null references customer,
    kind        text not null check (kind in ('home', 'billing', 'delivery')),
    city        text not null,
    postal_code text,
    valid_to    date
);
comment on table address is 'A customer may have several of one kind.';
comment on column address.valid_to is 'The last day of a former address; NULL for a present one.';

create table category (
    id        integer primary key,
    name      text not null unique,
    parent_id integer references category
);
comment on table category is 'A tree. Products hang on its leaves; a category without parent is a main category.';

create table product (
    id               integer primary key,
    title            text not null,
    category_id      integer not null references category,
    released         integer check (released between 1900 and 2100),
    rating           film_rating not null,
    daily_rate       numeric(8, 2) not null check (daily_rate > 0),
    replacement_cost numeric(8, 2) not null,
    length_minutes   integer,
    tags             text[] not null default '{}',
    details          jsonb not null default '{}',
    discontinued_on  date
);
comment on table product is 'A film. Titles are not unique: there are remakes.';
comment on column product.released is 'A year.';
comment on column product.daily_rate is 'List price in euro.';
comment on column product.length_minutes is 'NULL where nobody has measured it.';
comment on column product.details is 'language (text), subtitles (list of text), awards (number; absent if none).';
comment on column product.discontinued_on is 'NULL while the film is offered.';

create table inventory (
    id         integer primary key,
    product_id integer not null references product,
    store_id   integer not null references store,
    condition  text not null check (condition in ('new', 'good', 'worn')),
    bought_on  date not null,
    retired_on date
);
comment on table inventory is 'One copy of a film, at the store that owns it.';
comment on column inventory.retired_on is 'NULL for copies in use.';

create table rental (
    id           integer primary key,
    inventory_id integer not null references inventory,
    customer_id  integer not null references customer,
    staff_id     integer references staff,
    rented_at    timestamptz not null,
    due_at       timestamptz not null check (due_at > rented_at),
    returned_at  timestamptz
);
comment on table rental is 'It belongs to the store that owns the copy.';
comment on column rental.staff_id is 'NULL for rentals at a machine.';
comment on column rental.returned_at is 'NULL while the copy is out.';

create table invoice (
    id          integer primary key,
    number      text not null unique,
    customer_id integer not null references customer,
    issued_on   date not null,
    due_on      date not null,
    currency    text not null,
    state       invoice_state not null,
    total       numeric(12, 2) not null
);
comment on column invoice.state is 'Only open and paid invoices count as revenue; drafts and void ones do not.';
comment on column invoice.total is 'In the currency of the invoice. It should be the sum of the lines.';

create table invoice_line (
    invoice_id integer not null references invoice,
    line       integer not null,
    rental_id  integer references rental,
    kind       text not null check (kind in ('rental', 'late_fee', 'damage', 'discount')),
    quantity   integer not null,
    unit_price numeric(10, 2) not null,
    amount     numeric(12, 2) not null check (amount = quantity * unit_price),
    primary key (invoice_id, line)
);
comment on column invoice_line.amount is 'In the currency of the invoice; negative for discounts.';

create table payment (
    id          integer not null,
    invoice_id  integer references invoice,
    customer_id integer not null references customer,
    method      payment_method not null,
    status      payment_status not null,
    currency    text not null,
    amount      numeric(12, 2) not null check (amount > 0),
    paid_at     timestamptz not null,
    primary key (id, paid_at)
) partition by range (paid_at);
create table payment_2023 partition of payment for values from ('2023-01-01 00:00+00') to ('2024-01-01 00:00+00');
create table payment_2024 partition of payment for values from ('2024-01-01 00:00+00') to ('2025-01-01 00:00+00');
create table payment_2025 partition of payment for values from ('2025-01-01 00:00+00') to ('2026-01-01 00:00+00');
comment on table payment is 'An invoice may be paid in parts. Only settled payments are money that came in.';
comment on column payment.invoice_id is 'NULL for deposits, which belong to no invoice.';

create table refund (
    id          integer primary key,
    payment_id  integer not null,
    amount      numeric(12, 2) not null check (amount < 0),
    refunded_at timestamptz not null,
    reason      text
);
comment on table refund is 'Money paid back; in the currency of the payment.';
comment on column refund.amount is 'Negative.';
comment on column refund.reason is 'NULL where nobody noted one.';

create table review (
    product_id  integer not null references product,
    customer_id integer not null references customer,
    stars       integer not null check (stars between 1 and 5),
    written_on  date not null,
    body        text,
    primary key (product_id, customer_id)
);

create view active_customer as
    select id, first_name, last_name, email, country, store_id, segment, registered_at
      from customer where deleted_at is null;
comment on view active_customer is 'Customers that are not deleted.';

create view invoice_balance as
    select i.id as invoice_id, i.customer_id, i.currency, i.due_on, i.total,
           coalesce(p.settled, 0) as settled, i.total - coalesce(p.settled, 0) as outstanding
      from invoice i
           left join (select invoice_id, sum(amount) as settled
                        from payment where status = 'settled' group by invoice_id) p on p.invoice_id = i.id
     where i.state in ('open', 'paid');
comment on view invoice_balance is 'What of open and paid invoices is settled and outstanding; refunds are not in it.';

create index on rental (customer_id);
create index on rental (inventory_id);
create index on invoice (customer_id);
create index on payment (invoice_id);
