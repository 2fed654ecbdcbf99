"""Draw charts: on the terminal as characters, or as a PNG.

Names and labels come from rows and are untrusted: nothing in them is interpreted.
"""

import io
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from walagent.ask.charts import Chart, NoChart, Point, chart_of
from walagent.base.extras import install_hint
from walagent.cli.terminal.output import clean, say
from walagent.errors import ConfigError, PreconditionError
from walagent.rows.rows import Rows

_COLORS: Final = ("bright_blue", "yellow", "green", "magenta", "cyan", "red", "white")
_MARKERS: Final = ("*", "+", "o", "x", "#", "@", "%")  # without colors
_HEIGHT: Final = 15
_LABEL: Final = 24  # characters of a bar's label


def check_plotting(file: Path | None) -> None:
    """Check that a chart can be drawn, before a model is called.

    Raises:
        PreconditionError: the library is not installed.
        ConfigError: the file's directory does not exist.
    """
    library, extra = ("plotille", "ask") if file is None else ("matplotlib", "plot")
    if find_spec(library) is None:
        raise PreconditionError(
            f"--plot{' FILE' if file else ''} requires {library}, which is not installed",
            hint=install_hint(f"walagent[{extra}]"),
        )
    if file is not None and not file.absolute().parent.is_dir():
        raise ConfigError(f'--plot: directory "{file.absolute().parent}" does not exist')


def plot(rows: Rows, file: Path | None) -> bool:
    """Draw a chart of *rows* on stdout or to a file; return whether it was drawn.

    Raises:
        ConfigError: the file cannot be written.
    """
    chart = chart_of(rows)
    if isinstance(chart, NoChart):
        say(f"note: no chart: {chart.reason}")
        return False
    for said in chart.left_out:
        say(f"note: {said}")
    if file is None:
        click.echo()
        click.echo(draw(chart, shutil.get_terminal_size().columns, color=sys.stdout.isatty()))
        return True
    try:
        file.write_bytes(paint(chart))
    except OSError as error:
        raise ConfigError(f'--plot: cannot write "{file}": {error.strerror}') from error
    say(f"plot: {file}")
    return True


def draw(chart: Chart, width: int, *, color: bool) -> str:
    """Draw a chart with characters.

    Args:
        width: of the terminal.
    """
    return _bars(chart, width) if chart.kind == "bars" else _lines(chart, width, color=color)


def _lines(chart: Chart, width: int, *, color: bool) -> str:
    plotille: Any = import_module("plotille")
    figure = plotille.Figure()
    figure.width = max(20, min(width - 24, 120))  # labels need the rest
    figure.height = _HEIGHT
    figure.with_colors = color
    figure.color_mode = "names"
    one = len(chart.series) == 1
    figure.x_label = _short(chart.axis)
    figure.y_label = _short(next(iter(chart.series))) if one else ""
    figure.x_ticks_fkt, figure.y_ticks_fkt = _ticks(chart), _plain
    figure.origin = False
    places = [x for points in chart.series.values() for x, _ in points]
    figure.set_x_limits(min_=min(places), max_=max(places) + (min(places) == max(places)))
    for n, (name, points) in enumerate(chart.series.items()):
        if points:
            xs, ys = zip(*points, strict=True)
            marker = None if color or one else _MARKERS[n]
            figure.plot(xs, ys, lc=_COLORS[n] if color else None, label=_short(name), marker=marker)
    lines = str(figure.show(legend=not one)).replace(" () ", "    ", 1).splitlines()
    return "\n".join(line.rstrip(" \u2800") for line in lines)


def _ticks(chart: Chart) -> Callable[[float, float], str]:
    """Return a function that formats positions on the x axis in at most nine characters."""
    if not chart.is_time:
        return _plain
    places = [x for points in chart.series.values() for x, _ in points]
    day = 86_400.0
    span = max(places) - min(places)
    form = "%H:%M:%S" if span < day else "%d. %Hh" if span < 10 * day else "%m-%d"
    form = "%Y-%m" if span > 300 * day else form
    return lambda low, _: datetime.fromtimestamp(low, UTC).strftime(form)


def _plain(low: float, _high: float) -> str:
    return f"{low:.5g}"


def _bars(chart: Chart, width: int) -> str:
    labels = [_short(label) for label in chart.labels]
    several = len(chart.series) > 1
    column = max(map(len, labels))
    values = {name: dict(points) for name, points in chart.series.items()}
    most = max(abs(y) for points in chart.series.values() for _, y in points) or 1.0
    room = max(10, width - column - 14 - (_LABEL if several else 0))
    lines = [] if several else [_short(next(iter(values)), 60)]
    for n, label in enumerate(labels):
        for name, found in values.items():
            y = found.get(float(n))
            bar = "" if y is None else "█" * round(abs(y) / most * room)
            said = "NULL" if y is None else f"{y:.6g}"
            beside = f"  {_short(name)}" if several else ""
            lines.append(f"{label.rjust(column)} │{bar} {said}{beside}")
    return "\n".join(lines)


def _short(text: str, most: int = _LABEL) -> str:
    plain = " ".join(clean(text).split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def paint(chart: Chart) -> bytes:
    """Draw a chart as a PNG, without a window and without global state."""
    library: Any = import_module("matplotlib")
    canvas: Any = import_module("matplotlib.backends.backend_agg")
    figures: Any = import_module("matplotlib.figure")
    out = io.BytesIO()
    # A dollar sign in a name does not start a formula; a missing glyph is drawn as a box.
    with library.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = figures.Figure(figsize=(10, 5), dpi=120, layout="constrained")
        canvas.FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        (_paint_bars if chart.kind == "bars" else _paint_lines)(axes, chart)
        axes.set_xlabel(_short(chart.axis))
        if len(chart.series) > 1:
            axes.legend()
        else:
            axes.set_ylabel(_short(next(iter(chart.series))))
        axes.grid(visible=True, axis="y", alpha=0.3)
        figure.savefig(out, format="png")
    return out.getvalue()


def _paint_lines(axes: Any, chart: Chart) -> None:  # noqa: ANN401 - matplotlib's
    for name, points in chart.series.items():
        places: Sequence[Any] = [x for x, _ in points]
        if chart.is_time:
            places = [datetime.fromtimestamp(x, UTC) for x in places]
        axes.plot(places, [y for _, y in points], marker=".", label=_label(name))


def _paint_bars(axes: Any, chart: Chart) -> None:  # noqa: ANN401 - matplotlib's
    wide = 0.8 / len(chart.series)
    for n, (name, points) in enumerate(chart.series.items()):
        axes.bar(_moved(points, n * wide), [y for _, y in points], wide, label=_label(name))
    middle = 0.4 - wide / 2
    labels = [_short(label) for label in chart.labels]
    axes.set_xticks([n + middle for n in range(len(labels))], labels, rotation=45, ha="right")


def _moved(points: Sequence[Point], by: float) -> Sequence[float]:
    return [x + by for x, _ in points]


def _label(name: str) -> str:
    """Prefix a space: the legend omits labels that start with an underscore."""
    return f" {_short(name)}"
