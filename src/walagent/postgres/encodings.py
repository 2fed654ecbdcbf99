"""The encodings of databases, and the text that each can represent.

The connections use UTF-8 and the server converts.  Two cases remain: wal2json's documents, which
are not converted, and text of models, which can contain characters that the database's encoding
lacks.

Source: PostgreSQL docs, 24.3.1 Supported Character Sets.
"""

import codecs
from collections.abc import Mapping, Sequence
from typing import Final, cast

_ISO: Final = {5: 9, 6: 10, 7: 13, 8: 14, 9: 15, 10: 16}  # LATIN5 is ISO 8859-9, and so on

# PostgreSQL's name to Python's.  A database without an encoding (SQL_ASCII) receives UTF-8.
CODECS: Final = {
    "UTF8": "utf-8",
    "SQL_ASCII": "utf-8",
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    "WIN866": "cp866",
    "WIN874": "cp874",
    "EUC_CN": "gb2312",
    "EUC_JP": "euc-jp",
    "EUC_JIS_2004": "euc-jis-2004",
    "EUC_KR": "euc-kr",
    **{f"LATIN{n}": f"iso8859-{_ISO.get(n, n)}" for n in range(1, 11)},
    **{f"ISO_8859_{n}": f"iso8859-{n}" for n in range(5, 9)},
    **{f"WIN{n}": f"cp{n}" for n in range(1250, 1259)},
}


def to_utf8(text: bytes, encoding: str) -> bytes:
    """Convert text of a database to UTF-8; without an encoding, return it unchanged.

    Raises:
        UnicodeDecodeError: the text is not valid in this encoding.
    """
    codec = CODECS[encoding]
    return text if codec == "utf-8" else text.decode(codec).encode()


def misfit(value: object, encoding: str) -> str | None:
    """Return a character in a JSON value that this encoding cannot represent, or None."""
    codec = CODECS.get(encoding, "ascii")
    if codec == "utf-8":
        return None
    return next((bad for text in _texts(value) if (bad := _misfit(text, codec))), None)


def fit_text(text: str, encoding: str) -> str:
    r"""Replace the characters that this encoding cannot represent by escapes such as `\u2026`."""
    codec = CODECS.get(encoding, "ascii")
    if codec == "utf-8" or text.isascii():
        return text
    return text.encode(codec, "backslashreplace").decode(codec)


def fit_json(document: bytes, encoding: str) -> bytes:
    """Do the same in the strings of a JSON document."""
    codec = CODECS.get(encoding, "ascii")
    if codec == "utf-8" or document.isascii():
        return document
    return document.decode().encode(codec, _IN_JSON).decode(codec).encode()


def _texts(value: object) -> Sequence[str]:
    match value:
        case str():
            return [value]
        case Mapping():
            pairs = cast("Mapping[object, object]", value).items()
            return [text for pair in pairs for part in pair for text in _texts(part)]
        case list() | tuple():
            return [text for part in cast("Sequence[object]", value) for text in _texts(part)]
        case _:
            return []


def _misfit(text: str, codec: str) -> str | None:
    try:
        text.encode(codec)
    except UnicodeEncodeError as error:
        return text[error.start]
    return None


def _escape_in_json(error: UnicodeError) -> tuple[str, int]:
    r"""Escape characters as `\\u2026`, which a JSON parser reads as the text `\u2026`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end].encode("ascii", "backslashreplace").decode()
    return letters.replace("\\", "\\\\"), error.end


_IN_JSON: Final = "walagent.json"
codecs.register_error(_IN_JSON, _escape_in_json)
