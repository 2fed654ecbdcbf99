"""What of the shop is written down and not computed: countries, stores, names, prices."""

from datetime import UTC, date, datetime

from evals.shop.tables import Country, Store

BEGIN = datetime(2023, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 1, tzinfo=UTC)  # nothing happens from here on


def words(text: str) -> list[str]:
    """Take a text apart at its blanks."""
    return text.split()


COUNTRIES = [
    Country("AT", "Austria", "EUR"), Country("CH", "Switzerland", "CHF"),
    Country("DE", "Germany", "EUR"), Country("ES", "Spain", "EUR"),
    Country("FR", "France", "EUR"), Country("GB", "United Kingdom", "GBP"),
    Country("IE", "Ireland", "EUR"), Country("IS", "Iceland", "EUR"),
    Country("SE", "Sweden", "SEK"), Country("US", "United States", "USD"),
]  # fmt: skip
CURRENCY = {each.code: each.currency for each in COUNTRIES}

STORES = [
    Store(1, "Berlin Mitte", "DE", "Berlin", "Europe/Berlin", date(2015, 3, 1), None),
    Store(2, "Hamburg Hafen", "DE", "Hamburg", "Europe/Berlin", date(2017, 9, 15), None),
    Store(3, "Zürich West", "CH", "Zürich", "Europe/Zurich", date(2016, 5, 2), None),
    Store(4, "Wien Prater", "AT", "Wien", "Europe/Vienna", date(2018, 1, 8), None),
    Store(5, "Paris Nord", "FR", "Paris", "Europe/Paris", date(2018, 6, 1), None),
    Store(6, "Lyon Centre", "FR", "Lyon", "Europe/Paris", date(2019, 4, 1), date(2025, 9, 30)),
    Store(7, "London Soho", "GB", "London", "Europe/London", date(2016, 11, 7), None),
    Store(8, "Dublin Quay", "IE", "Dublin", "Europe/Dublin", date(2020, 2, 3), None),
    Store(9, "Stockholm Söder", "SE", "Stockholm", "Europe/Stockholm", date(2019, 8, 12), None),
    Store(10, "New York Chelsea", "US", "New York", "America/New_York", date(2021, 5, 17), None),
]
# How often each country is whose customer, of 100.
SHARES = {
    "DE": 30, "FR": 16, "GB": 16, "CH": 10, "AT": 8, "SE": 8, "US": 6, "IE": 4, "ES": 2,
}  # fmt: skip
HOMES = [code for code, share in SHARES.items() for _ in range(share)]
FIRST = words(
    """
    Anna Ben Clara David Elena Felix Greta Hugo Ida Jonas Karin Leo Mia Nils Olga Paul Rosa Simon
    Tara Urs Vera Walter Yara Zoe Amir Beate Cem Dora Emil Fatma
    """
)
LAST = words(
    """
    Keller Meier Rossi Dubois Smith Murphy Larsson Garcia Novak Fischer Weber Martin Bernard Jones
    Taylor Byrne Nilsson Lopez Horvat Wagner Becker Schulz Moreau Laurent Brown Wilson Walsh
    Berg Torres Gruber Huber Steiner Frei Kunz Petit Roux Evans Clarke Doyle Lind
    """
)
CITIES = {
    "DE": ["Berlin", "Hamburg", "Köln", "Leipzig"], "FR": ["Paris", "Lyon", "Nantes"],
    "GB": ["London", "Leeds", "Bristol"], "CH": ["Zürich", "Bern", "Genève"],
    "AT": ["Wien", "Graz"], "SE": ["Stockholm", "Malmö"], "US": ["New York", "Newark"],
    "IE": ["Dublin", "Cork"], "ES": ["Madrid", "Sevilla"],
}  # fmt: skip
TREE = {
    "Drama": ["Court", "Family", "Historical"], "Comedy": ["Romance", "Satire", "Slapstick"],
    "Action": ["Crime", "Adventure", "War"], "Documentary": ["Nature", "Music", "Society"],
}  # fmt: skip
TITLES = (
    [
        "Silent",
        "Last",
        "Golden",
        "Broken",
        "Hidden",
        "Cold",
        "Burning",
        "Little",
        "Endless",
        "Lost",
    ],
    [
        "River",
        "Garden",
        "Letter",
        "Summer",
        "Harbour",
        "Mirror",
        "Train",
        "Island",
        "Winter",
        "House",
    ],
    ["of Glass", "in Rome", "at Dawn", "Returns", "for Two", "", "of the North", "II", "by Night"],
)
TAGS = ["award", "classic", "debut", "cult", "festival", "remake", "short", "silent", "trilogy"]
RATINGS = ["all", "all", "6", "6", "12", "12", "12", "16", "16", "18"]
LANGUAGES = ["de", "en", "en", "en", "fr", "fr", "it", "sv", "es", "ja"]
METHODS = ["card", "card", "card", "transfer", "transfer", "direct_debit", "cash"]
RATE = {"EUR": 10_000, "CHF": 10_350, "GBP": 11_700, "SEK": 880, "USD": 9_250}
# What a euro of the list price is in local money, in hundredths: prices are rounded by people.
LOCAL = {"EUR": 100, "CHF": 110, "GBP": 90, "SEK": 1_100, "USD": 110}
