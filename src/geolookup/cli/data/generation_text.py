"""How ``generations show`` says what a generation is made of, and what is held and why."""

import shlex
from collections.abc import Mapping
from typing import Any

from geolookup import words
from geolookup.history.held import HeldItem
from geolookup.settings.times import shown
from geolookup.state.base.current import Current
from geolookup.state.publishing.kept import Kept

_DIGEST_SHOWN = 16


def size(count: int) -> str:
    """So many bytes, for people."""
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def held_lines(held: HeldItem, current: Current | None) -> list[str]:
    """What is held, why, how it differs, and what a person can do; ``current`` is what is served."""
    lines = []
    if held.name is None:
        lines.append(_line("held", f"a change of the stack to {', '.join(held.names)}"))
    else:
        record = held.record
        pulled = f"pulled {shown(str(record.get('pulled_at', '?')))} from {record['source']}"
        lines += [_line("held", f"source {held.name}, {pulled}"), _line("content", words.contents(record["rows"]))]
    if current is not None:
        lines.append(_line("served", f"generation {current.generation}: {words.contents(current.published['rows'])}"))
    lines.append(_line("digest", held.digest))
    lines += [_line("why", reason) for reason in held.reasons or ("the reason was not written down",)]
    if changes := words.changes(held.report.get("difference")):
        lines.append(_line("difference", ", ".join(changes)))
    lines += [_line("warning", str(warning)) for warning in held.report.get("warnings", ())]
    lines.append(_line("compare", f"geolookup generations diff served {shlex.quote(held.reference)}"))
    lines.append(_line("publish", f"geolookup sync --accept {held.digest[:_DIGEST_SHOWN]}"))
    lines.append(_line("else", "nothing to do: the next sync that brings something better replaces it"))
    return lines


def held_object(held: HeldItem) -> dict[str, Any]:
    """The same for ``--json``."""
    return {
        "reference": held.reference,
        "source": held.name,
        "stack": list(held.names),
        "digest": held.digest,
        "reasons": list(held.reasons),
        "published": dict(held.record),
        "report": dict(held.report),
    }


def kept_lines(kept: Kept, document: Mapping[str, Any]) -> list[str]:
    """What a kept generation is made of; ``document`` is its report.json, empty if that cannot be read."""
    marks = [name for name in ("served", "pinned", "packed", "refused") if getattr(kept, name)]
    lines = [_line("generation", f"{kept.number} ({', '.join(marks) or 'kept'})")]
    if kept.problem:
        return [*lines, _line("DAMAGED", kept.problem)]
    if kept.published_at:
        lines.append(_line("served from", shown(kept.published_at)))
    lines += [
        _line("pulled", shown(str(kept.pulled_at or "?"))),
        _line("from", str(kept.source)),
        _line("content", words.contents(kept.rows)),
        _line("digest", str(kept.digest)),
        _line("size", size(kept.bytes)),
    ]
    record = document.get("published", {})
    answers = record.get("answers", {})
    for part in record.get("stack", ()):
        v4, v6 = answers.get(part["name"], (0, 0))
        counts = f"answers {v4} IPv4 and {int(v6):.3g} IPv6 addresses"
        lines.append(_line("source", f"{part['name']} ({part['kind']}), snapshot {part['snapshot']}, {counts}"))
    report = document.get("report", {})
    if changes := words.changes(report.get("difference")):
        lines.append(_line("difference", f"{', '.join(changes)}, to the one before"))
    return lines + [_line("warning", str(warning)) for warning in report.get("warnings", ())]


def _line(name: str, text: str) -> str:
    return f"{name + ':':<13}{text}"
