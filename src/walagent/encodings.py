"""The encodings that a database may have, and what fits into them.

Our connections speak UTF-8 and the server converts.  Two things are left to us: wal2json's
documents, which are not converted, and what a model writes, which may hold letters that the
database has not.

Source: PostgreSQL docs, 24.3.1 Supported Character Sets.
"""

import codecs
from collections.abc import Mapping, Sequence
from typing import Final, cast

_ISO: Final = {5: 9, 6: 10, 7: 13, 8: 14, 9: 15, 10: 16}  # LATIN5 is ISO 8859-9, and so on

# By PostgreSQL's name, Python's.  A database without an encoding (SQL_ASCII) gets UTF-8 from us.
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
    """Write text of a database's encoding as UTF-8; of one without an encoding, leave it.

    Raises:
        UnicodeDecodeError: it is none.
    """
    codec = CODECS[encoding]
    return text if codec == "utf-8" else text.decode(codec).encode()


def misfit(value: object, encoding: str) -> str | None:
    """Find a letter, in any text of a JSON value, that a database of this encoding cannot hold."""
    codec = CODECS.get(encoding, "ascii")
    if codec == "utf-8":
        return None
    return next((bad for text in _texts(value) if (bad := _misfit(text, codec))), None)


def fit_text(text: str, encoding: str) -> str:
    r"""Write the letters that a database of this encoding cannot hold as `\u2026`."""
    codec = CODECS.get(encoding, "ascii")
    if codec == "utf-8" or text.isascii():
        return text
    return text.encode(codec, "backslashreplace").decode(codec)


def fit_json(document: bytes, encoding: str) -> bytes:
    """Do the same inside the texts of a JSON document."""
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
    r"""Write letters as `\\u2026`, which JSON reads as the text `\u2026`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end].encode("ascii", "backslashreplace").decode()
    return letters.replace("\\", "\\\\"), error.end


_IN_JSON: Final = "walagent.json"
codecs.register_error(_IN_JSON, _escape_in_json)
