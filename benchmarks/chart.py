"""Cost against size, drawn: search, build and its memory for 1 to 64 million segments, before and now (SVG).

matplotlib draws it (extra ``bench``). The file depends on the figures alone, so that a new one differs only if they do.
"""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from benchmarks.common import ROOT

CHART = os.path.join(ROOT, "benchmarks", "cost-and-size.svg")
_MILLIONS = (1, 4, 16, 64)
#: Title, what the name of a figure begins with, what was measured before, and the line to which it should keep.
_PANELS: tuple[tuple[str, str, dict[int, float], str], ...] = (
    ("search, ns an address", "segments/search/", {1: 19, 4: 26, 16: 52, 64: 91}, "1.5 times that of 1 M"),
    ("build, seconds", "segments/build s/", {1: 0.3, 4: 0.8, 16: 3.9, 64: 17.8}, "linear"),
    ("build, peak MiB", "segments/build MiB/", {64: 4.6e9 / (1 << 20)}, "1 GiB"),
)
_NOW, _BEFORE, _LIMIT = "#0072b2", "#d55e00", "#666666"  # told apart by the colour-blind too (Okabe and Ito)


def draw(found: Mapping[str, float]) -> bool:
    """Write the chart; false if matplotlib is not installed, or nothing was measured."""
    if find_spec("matplotlib") is None or not any(name.startswith("segments/") for name in found):
        return False
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "geolookup", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    for place, (title, name, before, wanted) in enumerate(_PANELS):
        axes = figure.add_subplot(1, len(_PANELS), place + 1)
        now = {size: found[f"{name}{size}"] for size in _MILLIONS if f"{name}{size}" in found}
        limit = _limit(wanted, now)
        for label, line, colour, style in (
            ("before", before, _BEFORE, "s--"),
            ("now", now, _NOW, "o-"),
            (f"goal: {wanted}", limit, _LIMIT, ":"),
        ):
            axes.plot(list(line), list(line.values()), style, color=colour, label=label, linewidth=1.5, markersize=4)
        for size, value in now.items():
            axes.annotate(f"{value:.2g}" if value < 10 else f"{value:,.0f}", (size, value), xytext=(0, -12),
                          textcoords="offset points", ha="center", color=_NOW, fontsize=8)  # fmt: skip
        axes.margins(x=0.08, y=0.18)  # room for the labels below the points
        axes.set_title(title, fontsize=10)
        axes.set_xscale("log", base=4)
        axes.set_xticks(_MILLIONS, labels=[f"{size} M" for size in _MILLIONS])
        axes.set_xlabel("IPv4 segments")
        if "search" in title:
            axes.set_ylim(bottom=0)
        else:
            axes.set_yscale("log")
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, frameon=False)
    figure.savefig(CHART, metadata={"Date": None})
    return True


def _limit(wanted: str, now: Mapping[int, float]) -> Mapping[int, float]:
    first = now.get(_MILLIONS[0], 0.0)
    sizes: Sequence[int] = _MILLIONS
    if wanted == "linear":
        return {size: first * size for size in sizes}
    return dict.fromkeys(sizes, 1024.0 if wanted == "1 GiB" else 1.5 * first)
