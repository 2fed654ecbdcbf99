"""Quote names and texts in SQL that is composed as text."""


def quote_name(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Quote a literal; a backslash means itself, as standard_conforming_strings is on."""
    return "'" + text.replace("'", "''") + "'"
