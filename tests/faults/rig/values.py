"""A table with a column of every type, and SQL literals for them: ordinary, awkward and extreme."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

TYPES = """
create extension if not exists hstore;
create extension if not exists citext;
create type mood as enum ('good', 'so-so', 'it''s, "bad"');
create type place as (street text, no int, tags text[]);
create domain small as integer check (value < 1000);
create domain note as text;
create domain doc as jsonb;
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type, and how values of it are made."""

    name: str
    some: Sequence[str]  # literals without their quotes
    more: Callable[[random.Random], str] | None = None


_SIGNED = ("0", "1", "-1")
KINDS: Sequence[Kind] = (
    Kind("smallint", (*_SIGNED, "32767", "-32768")),
    Kind("integer", (*_SIGNED, "2147483647", "-2147483648"), lambda c: str(c.randint(-9999, 9999))),
    Kind("bigint", (*_SIGNED, "9223372036854775807", "-9223372036854775808", "9007199254740993")),
    Kind(
        "numeric",
        (
            "0",
            "1.50",
            "-0.00000000000000000001",
            "NaN",
            "Infinity",
            "-Infinity",
            "1e100",
            "1e-30",
            "12345678901234567890.1234567890123456789",
            "100000000000000000000000",
        ),
        lambda c: f"{c.randint(-(10**18), 10**18)}.{c.randrange(10**9):09d}",
    ),
    Kind("numeric(12,3)", ("1.5", "-999999999.999", "NaN"), lambda c: f"{c.randrange(10**6)}.25"),
    Kind(
        "real", ("0", "-0", "1.5", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e38", "0.1")
    ),
    Kind(
        "double precision",
        ("0.1", "-0", "NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e308"),
        lambda c: repr(c.uniform(-1e9, 1e9)),
    ),
    Kind("boolean", ("t", "f")),
    Kind(
        "text",
        (
            "",
            " ",
            "null",
            "NULL",
            "it's",
            'a "quoted" word',
            "back\\slash",
            "line\nfeed\ttab\r",
            "Äpfel, 日本, 🦆",
            "\x01\x7f",
            "[x]:'y' z[text]:1",
            "{",
            "unchanged-toast-datum",
            "\\x00",
        ),
        lambda c: "".join(c.choice("ab'\"\\ ü\n,{}") for _ in range(c.randrange(20))),
    ),
    Kind("varchar(30)", ("", "x''y", "ü")),
    Kind("char(5)", ("", "ab", "abcde")),
    Kind('"char"', ("", "a", "\\")),
    Kind("name", ("", "a name", "pg_catalog")),
    Kind(
        "bytea", ("", "\\x", "\\x00", "\\xdeadbeef00ff275c"), lambda c: f"\\x{c.randbytes(9).hex()}"
    ),
    Kind("date", ("2026-01-02", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31")),
    Kind("time", ("00:00", "24:00", "23:59:59.999999", "12:34:56.7")),
    Kind("timetz", ("24:00:00-15:59", "00:00+00", "12:00:00.000001+05:30")),
    Kind("timestamp(3)", ("2026-01-02 03:04:05.678", "infinity", "-infinity", "4713-01-01 BC")),
    Kind("timestamptz", ("2026-07-02 03:04:05.678901+02", "infinity", "0001-01-01 00:00+00 BC")),
    Kind(
        "interval", ("0", "1 mon -3 days +04:05:06.7", "-1 year -2 days", "178000000 years", "1us")
    ),
    Kind("uuid", ("00000000-0000-0000-0000-000000000000",), lambda c: f"{c.getrandbits(128):032x}"),
    Kind("inet", ("10.0.0.1", "10.0.0.1/8", "::1", "fe80::1/64")),
    Kind("cidr", ("10.0.0.0/8", "2001:db8::/32")),
    Kind("macaddr", ("08:00:2b:01:02:03",)),
    Kind("bit(4)", ("0000", "1010")),
    Kind("bit varying", ("", "1", "101010101")),
    Kind("json", ("{}", "null", '{"a":  1, "a": 2}', '"\\u00e4\\n"', "[1e400, -0]", '"it\'s"')),
    Kind(
        "jsonb",
        (
            "{}",
            "null",
            '{"b": [1, null, "x\\"y"], "a": 12345678901234567890.12345678901234567890}',
            "1e100",
        ),
    ),
    Kind("xml", ("<a>&amp;</a>", "<b x='1'/>text")),
    Kind("money", ("0", "12.5", "-92233720368547758.08")),
    Kind("oid", ("0", "4294967295")),
    Kind("regclass", ("pg_class", "0", "keyed")),
    Kind("int4range", ("empty", "[1,5)", "(,5]", "(,)")),
    Kind("numrange", ("[1.50,2.0]", "(NaN,)")),
    Kind("tstzrange", ("[2026-01-01 00:00+00,infinity)", "empty")),
    Kind("int4multirange", ("{}", "{[1,3),[5,7)}")),
    Kind("datemultirange", ("{[2026-01-01,2026-02-01)}",)),
    Kind("tsvector", ("", "'it''s':1A,2 'x'")),
    Kind("tsquery", ("", "'a' & !('b' | 'it''s')")),
    Kind("point", ("(1,2)", "(1e300,-0)", "(NaN,Infinity)")),
    Kind("box", ("(1,2),(3,4)",)),
    Kind("polygon", ("((0,0),(1,1),(1,0))",)),
    Kind("circle", ("<(1,2),3>",)),
    Kind("pg_lsn", ("0/0", "16/B374D848")),
    Kind("xid8", ("0", "18446744073709551615")),
    Kind("jsonpath", ('$."a"[*] ? (@ > 1)',)),
    Kind("integer[]", ("{}", "{1,NULL,-3}", "[2:3]={1,2}", "{{1,2},{3,NULL}}")),
    Kind("text[]", ("{}", '{a,"b c","d\\"e","NULL",NULL,""}', '[0:0]={"{}"}', '{"it\'s"}')),
    Kind("numeric[]", ("{NaN,Infinity,1.50}", "{{{1}}}")),
    Kind("timestamptz[]", ('{"2026-01-02 03:04:05+00",infinity}',)),
    Kind("mood", ("good", "so-so", 'it\'s, "bad"')),
    Kind("mood[]", ('{good,"it\'s, \\"bad\\""}',)),
    Kind("place", ('("Main ""St"", 1",7,"{a,\\"b c\\"}")', "(,,)")),
    Kind("place[]", ('{"(a,1,{})"}',)),
    Kind("small", ("1", "-999")),
    Kind("note", ("", "it's")),
    Kind("doc", ('{"a": 1.50}',)),
    Kind("hstore", ("", 'a=>NULL, "b c"=>"d\\"e"')),
    Kind("citext", ("MiXed",)),
)

# Names that need quotes, and some that look like something else.
AWKWARD = (
    "a.b",
    'say "x"',
    "with space",
    "[x]",
    "%s {} $1",
    "Ünï",
    "select",
    "id[int]:",
    "ABC",
    "'",
)


def column_name(number: int) -> str:
    """The name of a column, quoted."""
    awkward = AWKWARD[number] if number < len(AWKWARD) else f"c{number}"
    return '"' + awkward.replace('"', '""') + '"'


def columns_sql() -> str:
    """All columns, as CREATE TABLE wants them."""
    return ", ".join(f"{column_name(n)} {kind.name}" for n, kind in enumerate(KINDS))


def literal(kind: Kind, chance: random.Random, absent: Collection[str] = ()) -> str:
    """A value by chance, as SQL; of types in *absent*, which the server cannot make, NULL."""
    if chance.random() < 0.15 or kind.name in absent:
        return "null"
    plain = kind.more(chance) if kind.more and chance.random() < 0.4 else chance.choice(kind.some)
    quoted = plain.replace("'", "''")
    return f"'{quoted}'"
