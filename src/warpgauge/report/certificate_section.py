"""Report section "certificate": the verdict of random questions beside that of the model."""

from __future__ import annotations

from warpgauge.evaluation import Certificate
from warpgauge.report.html import box, facts, paragraph, table, text_cell


def certificate_section(found: Certificate) -> str:
    """Return both verdicts, where they contradict each other, and what the certificate rests on."""
    about, heads_and_rows = found.content["audit"], found.table()
    heads, rows = heads_and_rows
    parts = [
        box("verdict", found.content["verdict"]),
        paragraph(
            f"This verdict rests on {about['usable']} answers at places drawn at random from {about['population']} "
            "targets, each with a known probability. It holds whatever the model of the true transformation; the "
            "model's own verdict stands beside it."
        ),
        *(box("warning", sentence) for sentence in found.contradictions),
        table(
            "Both verdicts. Mean error and 90th percentile include the raters' placement errors.",
            heads,
            [(str(row[0]), [text_cell(cell) for cell in row[1:]]) for row in rows],
            name="certificate-methods",
        ),
        paragraph(_skips(found)),
        facts("Certificate", _facts(found)),
    ]
    return "".join(parts)


def _skips(found: Certificate) -> str:
    about = found.content["audit"]
    if not about["not_answered"]:
        return "Every random question that was reached is answered."
    bounds = "; ".join(
        f"{one.name} {one.rms.low_with_skips:.3g} to {one.rms.high_with_skips:.3g}"
        for one in found.verdict.methods
        if one.rms.low_with_skips is not None and one.rms.high_with_skips is not None
    )
    return (
        f"{about['not_answered']} of {about['reached']} random questions were not answered. The intervals are about "
        f"places that can be answered. With every skipped place as good, or as bad, as the best or worst answered one, "
        f"the RMS errors would be: {bounds}."
    )


def _facts(found: Certificate) -> dict[str, object]:
    content = found.content
    late = [name for name, one in content["transforms"].items() if one["after_opening"]]
    sealed = content["audit"]["sealed"]
    return {
        "random questions": f"{content['audit']['reached']} reached, {content['audit']['usable']} used",
        "sealed answers": f"{sealed}, unknown to the model and to all exports" if sealed else "none",
        "added after the answers were opened": ", ".join(late) or "no transform",
        "estimates assisted by predictions": "yes" if found.verdict.assisted else "no",
        "log": f"generation {content['project']['log']['generation']}, {content['project']['log']['digest']}",
        "seeds of the draws": ", ".join(map(str, content["seeds"]["rounds"])),
        "hash of the answers": content["commitment"],
        "digest": content["digest"],
        "software": ", ".join(f"{name} {version}" for name, version in content["software"].items()),
    }
