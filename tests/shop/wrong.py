"""Statements that look right and are not, by question, as a model writes them."""

# Sums and counts that a join repeats: what VERIFY should find.
FANNED_OUT = {
    "revenue_by_currency_2024": """
        select i.currency, sum(i.total) from invoice i join payment p on p.invoice_id = i.id
         where i.state in ('open', 'paid') and extract(year from i.issued_on) = 2024 group by i.currency
    """,
    "outstanding_by_currency": """
        select i.currency, sum(i.total) - sum(p.amount)
          from invoice i left join payment p on p.invoice_id = i.id and p.status = 'settled'
         where i.state = 'open' group by i.currency
    """,
    "revenue_and_payments_by_segment": """
        select c.segment, sum(i.total) as invoiced, sum(p.amount) as settled
          from customer c
               join invoice i on i.customer_id = c.id
               join payment p on p.customer_id = c.id and p.status = 'settled'
         where i.currency = 'CHF' and i.state in ('open', 'paid')
           and i.issued_on between '2025-01-01' and '2025-12-31'
         group by c.segment
    """,
    "customers_by_country": """
        select c.country, count(c.id) from customer c join address a on a.customer_id = c.id
         where c.deleted_at is null group by c.country
    """,
    "lines_and_totals": """
        select i.number, sum(i.total) - sum(l.amount)
          from invoice i join invoice_line l on l.invoice_id = i.id
         group by i.id having sum(i.total) <> sum(l.amount)
    """,
    "overdue": """
        select count(i.id), sum(i.total) - coalesce(sum(p.amount), 0)
          from invoice i left join payment p on p.invoice_id = i.id and p.status = 'settled'
         where i.state = 'open' and i.currency = 'EUR' and i.due_on < '2025-12-31'
    """,
    "revenue_by_segment": """
        select c.segment, sum(i.total)
          from customer c join invoice i on i.customer_id = c.id join address a on a.customer_id = c.id
         where i.currency = 'EUR' and i.state in ('open', 'paid')
           and i.issued_on between '2025-01-01' and '2025-12-31' group by c.segment
    """,
}

# Wrong in other ways, which only the expected answer shows.
MISREAD = {
    "active_customers": "select count(*) from customer",
    "copies_by_store": "select s.name, count(*) from store s join inventory i on i.store_id = s.id group by s.name",
    "rentals_by_main_category": """
        select c.name, count(*) from rental r join inventory i on i.id = r.inventory_id
               join product p on p.id = i.product_id join category c on c.id = p.category_id group by c.name
    """,
    "money_in_2024": """
        select currency, sum(amount) from payment
         where paid_at >= '2024-01-01 00:00+00' and paid_at < '2025-01-01 00:00+00' group by currency
    """,
    "new_years_eve": """
        select s.name, count(*) from rental r join inventory i on i.id = r.inventory_id
               join store s on s.id = i.store_id
         where (r.rented_at at time zone 'UTC')::date = '2024-12-31' group by s.name
    """,
    "refunds_by_reason": "select reason, count(reason) from refund where reason is not null group by reason",
    "shared_names": """
        select first_name, last_name, count(*) from customer group by 1, 2 having count(*) >= 11
    """,
    "revenue_in_euro_2024": "select sum(total) from invoice where extract(year from issued_on) = 2024",
    "longest_films": "select id, title, length_minutes from product order by length_minutes desc, id limit 5",
    "growth_2025": """
        select to_char(issued_on, 'YYYY-MM'), sum(total) from invoice
         where currency = 'EUR' and state in ('open', 'paid') and issued_on >= '2025-01-01' group by 1 order by 1
    """,
    "icelanders": "select first_name, last_name from customer where country = 'IE' limit 3",
    "share_who_rented": """
        select c.country, round(count(*) / count(distinct r.customer_id)::numeric, 1) as percent
          from customer c left join rental r on r.customer_id = c.id group by c.country
    """,
    "opening_hours": "select opened_on from store where city = 'Dublin'",
    "the_best": "select title from product order by daily_rate desc limit 1",
    "delete_all": "select count(*) from customer",
}
