"""Write docs/speed.md and its pictures from the JSON of ``make bench``.

``python benchmarks/speed_page.py bench-output/bench.json`` copies the JSON to docs/speed.json and makes the page and
the pictures from it; a test compares the page with the JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PARTS = {
    "bench_start": "Starting",
    "bench_core": "Model and suggestions",
    "bench_maps": "Maps",
    "bench_evaluate": "Evaluation",
    "bench_cluster": "Clusters",
    "bench_busy": "Every core busy",
    "bench_transforms": "Transforms",
    "bench_answers": "Answers",
    "bench_web": "Server and page",
    "bench_peers": "Other packages",
}
TEXT = Path(__file__).with_name("speed_page.md")


GROWTH = "bench_growth"


def _runs(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Which machine and code each part of a result was measured with."""
    modules = sorted({row["module"] for row in result["rows"]}) + ([GROWTH] if result["curves"] else [])
    return result.get("runs") or [{"machine": result["machine"], "modules": modules}]


def merged(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs of different modules as one; a later run of a module takes the place of an earlier one."""
    rows: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    for result in results:
        new = {module for run in _runs(result) for module in run["modules"]}
        rows = [row for row in rows if row["module"] not in new] + result["rows"]
        curves = result["curves"] or curves
        kept = [{**run, "modules": [one for one in run["modules"] if one not in new]} for run in runs]
        runs = [run for run in kept if run["modules"]] + _runs(result)
    return {"runs": runs, "rows": rows, "curves": curves}


def page(result: dict[str, Any]) -> str:
    """The page as Markdown."""
    lines = [
        "<!-- Made by benchmarks/speed_page.py from docs/speed.json; edit benchmarks/speed_page.md instead. -->",
        TEXT.read_text("utf-8").rstrip(),
        "",
        "## Figures",
        "",
        *(_measured(run) for run in _runs(result)),
    ]
    for module, title in PARTS.items():
        rows = [row for row in result["rows"] if row["module"] == module]
        if rows:
            heads = "| work | against | ratio (at most) | times |"
            lines += ["", f"### {title}", "", heads, "|---|---|---|---|"]
            lines += [_line(row) for row in rows]
    if result["curves"]:
        lines += ["", "## Growth", ""]
        lines += [f"![{curve['title']}](images/{_file(number)})" for number, curve in enumerate(result["curves"])]
    return "\n".join(lines) + "\n"


def _measured(run: dict[str, Any]) -> str:
    """Return a sentence on what the figures of some parts were measured."""
    about, titles = run["machine"], {**PARTS, GROWTH: "Growth"}
    before, after = about["load_per_core"]
    parts = ", ".join(title for module, title in titles.items() if module in run["modules"])
    return (
        f"- {parts}: measured with the code of commit {about['code']} on {about['cores']} cores of an "
        f"{about['processor']}, Python {about['python']}, numpy {about['numpy']}, numba {about['numba']}. Each time is "
        f"the smallest of several, and each ratio is of one run. {before} processes wanted each core before the run "
        f"and {after} after it.{_doubt(max(before, after))}"
    )


def _doubt(load: float) -> str:
    """Return what the load of the machine means for the figures; nothing where it was idle."""
    if load <= 1.5:
        return ""
    return (
        " **The machine was busy with other work**: ratios of processor time hold to about 10 %, but ratios by the "
        "clock of work in several threads, and those of busy against idle cores, do not; run `make bench` on an idle "
        "machine before you believe them."
    )


def _line(row: dict[str, Any]) -> str:
    times = row["note"] or ""
    if row["seconds"] is not None:
        times = f"{_time(row['seconds'])}, {_time(row['bound_seconds'])}" + (f"; {row['note']}" if row["note"] else "")
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    if row["reached"] is False:
        ratio = f"**{ratio}, missed**"
    limit = "" if row["limit"] is None else f" ({row['limit']:g})"
    return f"| {row['work']} | {row['bound']} | {ratio}{limit} | {times} |"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.995 else f"{seconds * 1e3:.3g} ms"


def _file(number: int) -> str:
    return f"speed-growth-{number + 1}.svg"


def draw(curves: list[dict[str, Any]], folder: Path) -> None:
    """Each curve as a picture: time against size, both by logarithm."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "warpgauge"
    for number, curve in enumerate(curves):
        figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
        for name, seconds in curve["seconds"].items():
            axes.loglog(curve["values"], seconds, marker="o", label=name)
        axes.set_xlabel(curve["x"])
        axes.set_ylabel("seconds")
        axes.set_title(curve["title"], fontsize=8)
        axes.set_xticks(curve["values"], [f"{value:,}" for value in curve["values"]])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        if len(curve["seconds"]) > 1:
            axes.legend()
        figure.savefig(folder / _file(number), metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path, nargs="*", help="one run, or runs of different modules (--only)")
    arguments = parser.parse_args()
    files = arguments.json or [ROOT / "bench-output" / "bench.json"]
    result = merged([json.loads(file.read_text("utf-8")) for file in files])
    docs = ROOT / "docs"
    (docs / "speed.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    draw(result["curves"], docs / "images")
    (docs / "speed.md").write_text(page(result), "utf-8")
    sys.stdout.write(f"written {docs / 'speed.md'}\n")


if __name__ == "__main__":
    main()
