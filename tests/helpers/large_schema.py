"""A schema of a thousand tables with names as companies give them, and questions about it.

Each module of the company has its own schema; most tables have a staging copy and a history beside
them, as they do where data is moved about.  Some names are short, some are abbreviated.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

# module → table → columns beyond the key; a column that ends in _id refers to the table it names.
MODULES: Mapping[str, Mapping[str, str]] = {
    "sales": {
        "customers": "name email country segment created_at",
        "customer_addresses": "customer_id street city postal_code kind",
        "orders": "customer_id ordered_at status channel currency total",
        "order_lines": "order_id product_id quantity unit_price discount",
        "quotes": "customer_id valid_until status total",
        "quote_lines": "quote_id product_id quantity unit_price",
        "sales_reps": "employee_id territory_id quota",
        "territories": "name region",
        "commissions": "sales_rep_id order_id amount paid_at",
        "promotions": "code starts_on ends_on percent",
        "returns": "order_id reason returned_at refunded_amount",
        "opportunities": "customer_id stage probability expected_revenue closes_on",
    },
    "billing": {
        "invoices": "customer_id issued_on due_on status total currency",
        "invoice_items": "invoice_id description quantity amount tax_rate_id",
        "payments": "invoice_id paid_at amount method",
        "credit_notes": "invoice_id issued_on amount reason",
        "tax_rates": "country percent valid_from",
        "dunning_letters": "invoice_id level sent_at",
        "subscriptions": "customer_id plan_id started_on cancelled_on status",
        "plans": "name monthly_price billing_interval",
        "usage_records": "subscription_id metric quantity recorded_at",
        "payment_methods": "customer_id kind expires_on",
        "chargebacks": "payment_id opened_at outcome",
        "bank_accounts": "iban bank currency balance",
    },
    "hr": {
        "employees": "first_name last_name hired_on department_id job_title manager_id",
        "departments": "name cost_center_id",
        "absences": "employee_id kind starts_on ends_on approved",
        "salaries": "employee_id amount currency valid_from",
        "job_applications": "candidate_id vacancy_id applied_at stage",
        "candidates": "name email source",
        "vacancies": "title department_id opened_on closed_on",
        "trainings": "title provider hours",
        "training_attendances": "training_id employee_id attended_on passed",
        "performance_reviews": "employee_id reviewer_id rating reviewed_on",
        "time_sheets": "employee_id work_date hours project_id",
        "benefits": "name provider monthly_cost",
    },
    "logistics": {
        "warehouses": "name city capacity",
        "shipments": "order_id carrier_id shipped_at delivered_at tracking_number",
        "carriers": "name service_level",
        "stock_levels": "warehouse_id product_id on_hand reserved",
        "stock_movements": "warehouse_id product_id quantity moved_at reason",
        "pick_lists": "warehouse_id order_id picked_at picker_id",
        "purchase_orders": "supplier_id ordered_on expected_on status",
        "purchase_order_lines": "purchase_order_id product_id quantity cost",
        "suppliers": "name country lead_time_days",
        "delivery_routes": "vehicle_id driver_id route_date kilometres",
        "vehicles": "plate model mileage",
        "goods_receipts": "purchase_order_id received_at accepted_quantity",
    },
    "support": {
        "tickets": "customer_id opened_at closed_at priority status assignee_id",
        "ticket_comments": "ticket_id author_id body written_at",
        "sla_policies": "name first_response_minutes resolution_hours",
        "satisfaction_surveys": "ticket_id score answered_at",
        "knowledge_articles": "title views helpful_votes",
        "escalations": "ticket_id escalated_at level",
        "support_agents": "employee_id team_id",
        "support_teams": "name time_zone",
        "call_recordings": "ticket_id duration_seconds recorded_at",
        "canned_replies": "title body",
    },
    "catalog": {
        "products": "sku name category_id brand_id list_price weight_grams active",
        "categories": "name parent_category_id",
        "brands": "name country",
        "product_images": "product_id url position",
        "product_reviews": "product_id customer_id stars reviewed_at",
        "price_lists": "name currency valid_from",
        "price_list_entries": "price_list_id product_id price",
        "attributes": "name unit",
        "product_attributes": "product_id attribute_id value",
        "bundles": "name bundle_price",
        "bundle_items": "bundle_id product_id quantity",
    },
    "marketing": {
        "campaigns": "name channel starts_on budget",
        "campaign_members": "campaign_id contact_id responded",
        "contacts": "email name opted_in_at",
        "email_sends": "campaign_id contact_id sent_at opened_at clicked_at",
        "landing_pages": "url title conversions",
        "ad_spend": "campaign_id spend_date platform cost impressions clicks",
        "leads": "contact_id source score qualified_at",
        "newsletter_subscriptions": "contact_id subscribed_at unsubscribed_at",
        "referrals": "referrer_id referred_id reward",
        "events": "title venue starts_at seats",
        "event_registrations": "event_id contact_id attended",
    },
    "finance": {
        "ledger_accounts": "number name kind",
        "journal_entries": "posted_on description fiscal_period_id",
        "journal_lines": "journal_entry_id ledger_account_id debit credit cost_center_id",
        "cost_centers": "code name",
        "fiscal_periods": "starts_on ends_on closed",
        "budgets": "cost_center_id fiscal_period_id amount",
        "exchange_rates": "currency rate_date rate",
        "fixed_assets": "name acquired_on cost useful_life_years",
        "depreciations": "fixed_asset_id fiscal_period_id amount",
        "expense_reports": "employee_id submitted_on status total",
        "expense_items": "expense_report_id category amount spent_on",
        "bank_statements": "bank_account_id statement_date closing_balance",
    },
    "product_dev": {
        "projects": "name started_on deadline owner_id",
        "tasks": "project_id title status estimate_hours assignee_id",
        "sprints": "project_id starts_on ends_on goal",
        "bugs": "project_id severity reported_at fixed_at",
        "releases": "project_id version released_on",
        "deployments": "release_id environment deployed_at succeeded",
        "code_reviews": "author_id reviewer_id opened_at merged_at",
        "incidents": "severity started_at resolved_at root_cause",
        "feature_flags": "key enabled rollout_percent",
        "test_runs": "release_id passed failed ran_at",
    },
    "facilities": {
        "buildings": "name city floors",
        "rooms": "building_id name seats",
        "room_bookings": "room_id booked_by_id starts_at ends_at",
        "leases": "building_id landlord monthly_rent ends_on",
        "maintenance_orders": "building_id reported_at done_at cost",
        "energy_readings": "building_id meter reading_kwh read_at",
        "access_cards": "employee_id issued_on revoked_on",
        "access_logs": "access_card_id door entered_at",
        "cleaning_contracts": "building_id vendor monthly_fee",
        "parking_spaces": "building_id number employee_id",
    },
    "learning": {
        "courses": "title level price_class",
        "lessons": "course_id title minutes",
        "enrollments": "course_id student_id enrolled_at completed_at",
        "students": "name email birth_year",
        "instructors": "name bio",
        "exams": "course_id held_on max_points",
        "exam_results": "exam_id student_id points",
        "certificates": "enrollment_id issued_on number",
        "assignments": "lesson_id due_at",
        "submissions": "assignment_id student_id submitted_at grade",
    },
    "clinic": {
        "patients": "name birth_date insurance_number",
        "appointments": "patient_id doctor_id starts_at status",
        "doctors": "name specialty",
        "prescriptions": "patient_id doctor_id medication_id dosage prescribed_on",
        "medications": "name active_ingredient",
        "lab_results": "patient_id test_code value measured_at",
        "admissions": "patient_id ward_id admitted_at discharged_at",
        "wards": "name beds",
        "diagnoses": "patient_id icd_code diagnosed_on",
        "insurance_claims": "patient_id submitted_on approved_amount",
        "vaccinations": "patient_id vaccine given_on",
    },
}  # fmt: skip

# What people ask, and below it the tables that the answer needs.
_ASKED = """
Who are our ten customers with the highest order total this year?
    sales.customers sales.orders
Which products were returned most often, and for what reason?
    sales.returns sales.order_lines catalog.products
How much commission did each sales rep earn last quarter?
    sales.commissions sales.sales_reps
What is the expected revenue of open opportunities by stage?
    sales.opportunities
How many quotes turned into an order within 30 days?
    sales.quotes sales.orders
Which invoices are overdue by more than 60 days?
    billing.invoices
How much have customers in Germany paid us by credit card?
    billing.payments billing.invoices sales.customers
What is our churn: subscriptions cancelled per month by plan?
    billing.subscriptions billing.plans
List credit notes with the invoice they belong to
    billing.credit_notes billing.invoices
How many dunning letters of level three were sent in March?
    billing.dunning_letters
Which chargebacks did we lose?
    billing.chargebacks
Average salary by department
    hr.salaries hr.employees hr.departments
Who has been absent the most days this year?
    hr.absences hr.employees
How many candidates applied for each open vacancy?
    hr.job_applications hr.vacancies hr.candidates
Which employees have not attended any training since 2024?
    hr.employees hr.training_attendances
Hours booked on timesheets per project last month
    hr.time_sheets
What was the average rating in performance reviews by manager?
    hr.performance_reviews hr.employees
Which products are out of stock in the Zurich warehouse?
    logistics.stock_levels logistics.warehouses catalog.products
How long do carriers take from shipping to delivery?
    logistics.shipments logistics.carriers
Which suppliers deliver late compared with the expected date?
    logistics.suppliers logistics.purchase_orders logistics.goods_receipts
Kilometres driven per vehicle on delivery routes
    logistics.delivery_routes logistics.vehicles
What did we spend on purchase orders by product?
    logistics.purchase_orders logistics.purchase_order_lines catalog.products
Median time to close a ticket by priority
    support.tickets
Satisfaction score by support team
    support.satisfaction_surveys support.support_teams support.support_agents
Which knowledge articles are viewed but not found helpful?
    support.knowledge_articles
How many tickets were escalated twice?
    support.escalations support.tickets
Best reviewed products by brand
    catalog.product_reviews catalog.products catalog.brands
Which products have no image?
    catalog.products catalog.product_images
How many products does each category have, with its parent?
    catalog.categories catalog.products
Compare list price and price list entries for the euro list
    catalog.price_lists catalog.price_list_entries catalog.products
Open and click rate of emails by campaign
    marketing.email_sends marketing.campaigns
Cost per lead by marketing platform
    marketing.ad_spend marketing.leads marketing.campaigns
Which contacts unsubscribed from the newsletter after an event?
    marketing.newsletter_subscriptions marketing.contacts marketing.event_registrations
Seats left for each event
    marketing.events marketing.event_registrations
Balance of each checkpoint account at the end of the fiscal period
    finance.journal_lines finance.ledger_accounts finance.fiscal_periods finance.journal_entries
Where are we over budget, by cost center?
    finance.budgets finance.cost_centers
Depreciation of fixed assets next year
    finance.fixed_assets finance.depreciations
Which expense reports wait for approval, and whose are they?
    finance.expense_reports hr.employees
Exchange rate of the dollar on the last day of each month
    finance.exchange_rates
Bugs of high severity still open per project
    product_dev.bugs product_dev.projects
How often do deployments to production fail?
    product_dev.deployments
Mean time to resolve incidents by severity
    product_dev.incidents
Tasks that took longer than estimated in the current sprint
    product_dev.tasks product_dev.sprints
Which meeting rooms are booked the least?
    facilities.room_bookings facilities.rooms
Energy use per building and month
    facilities.energy_readings facilities.buildings
Who entered the building after midnight?
    facilities.access_logs facilities.access_cards hr.employees
Which leases end next year and what rent do we pay?
    facilities.leases facilities.buildings
Completion rate of courses by level
    learning.courses learning.enrollments
Average exam points per student
    learning.exam_results learning.students learning.exams
Submissions handed in after the assignment was due
    learning.submissions learning.assignments
Patients with more than three appointments cancelled
    clinic.patients clinic.appointments
Which medication does each doctor prescribe most?
    clinic.prescriptions clinic.medications clinic.doctors
Average length of stay by ward
    clinic.admissions clinic.wards
Insurance claims approved for less than was submitted
    clinic.insurance_claims
Lab results of patients with a diabetes diagnosis
    clinic.lab_results clinic.diagnoses clinic.patients
"""
_LINES = _ASKED.strip().splitlines()
QUESTIONS: Sequence[tuple[str, Sequence[str]]] = [
    (question, tables.split()) for question, tables in zip(_LINES[::2], _LINES[1::2], strict=True)
]


def large_schema() -> list[Mapping[str, Any]]:
    """Give the tables in the form of `store.schema.read_schema`."""
    known = {name: f"{module}.{name}" for module, tables in MODULES.items() for name in tables}
    made = (
        _copies(module, name, columns.split(), known)
        for module, tables in MODULES.items()
        for name, columns in tables.items()
    )
    return list(chain.from_iterable(made))


def _copies(
    module: str, name: str, columns: Sequence[str], known: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    """Give a table, and what stands beside it in a warehouse that has grown."""
    yield _table(module, name, ["id", *columns], list(_references(columns, known)))
    for schema, title in (
        ("staging", f"stg_{module}_{name}"),
        ("history", f"{name}_history"),
        ("archive", f"{name}_2019"),
        ("reporting", f"rpt_{name}_daily"),
        ("import", f"tmp_{name}_import_errors"),
        ("audit", f"{name}_changes"),
        ("backup", f"bak_{name}"),
    ):
        yield _table(schema, title, ["id", "loaded_at", *columns], [])


def _table(
    schema: str, name: str, columns: Sequence[str], references: list[Mapping[str, Any]]
) -> Mapping[str, Any]:
    fields = [
        {"name": column, "type": "text", "not_null": False, "comment": None, "values": None}
        for column in columns
    ]
    return {
        "schema": schema, "name": name, "kind": "table", "rows": None, "comment": None,
        "columns": fields, "key": ["id"], "references": references, "checks": None,
    }  # fmt: skip


def _references(columns: Sequence[str], known: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    for column in columns:
        one = column.removesuffix("_id")
        plurals = (f"{one}s", f"{one}es", f"{one[:-1]}ies")
        plural = next((each for each in plurals if each in known), None)
        if column.endswith("_id") and plural is not None:
            schema, _, table = known[plural].partition(".")
            yield {"columns": [column], "schema": schema, "table": table, "to": ["id"]}
