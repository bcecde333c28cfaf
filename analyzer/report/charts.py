"""Courses over time as SVG: memory of every card over the dumps, and what the log counts again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from analyzer.model import GpuSnapshot, Series
from analyzer.report.messages import N_, Translate

_HEIGHT, _BOTTOM, _TOP = 150, 128, 18
#: Points drawn of one course; more than a screen shows.
_POINTS = 400

#: Series worth a picture, and what they are called; the rest is in the JSON.
SERIES = {
    "kv_cache.usage": N_("KV cache in use"),
    "kv_cache.cpu_usage": N_("CPU KV cache in use"),
    "scheduler.running": N_("requests running"),
    "scheduler.waiting": N_("requests waiting"),
    "scheduler.swapped": N_("requests swapped"),
    "throughput.prompt": N_("prompt throughput"),
    "throughput.generation": N_("generation throughput"),
    "prefix_cache.hit_rate": N_("prefix cache hits"),
}


@dataclass(frozen=True, slots=True)
class Course:
    """One line of a chart: (place on the axis, value) in order."""

    name: str
    points: tuple[tuple[float, float], ...]


def memory_svg(snapshots: Sequence[GpuSnapshot], identifier: str, _: Translate) -> str:
    """Used memory of every card over the dumps, in GiB; empty where there are fewer than two dumps."""
    courses: dict[int, list[tuple[float, float]]] = {}
    top = 0.0
    for place, snapshot in enumerate(snapshots):
        used: dict[int, float] = {}
        for gpu in snapshot.gpus:
            if isinstance(gpu.index, int):
                if gpu.memory_used_mib is not None:
                    used[gpu.index] = gpu.memory_used_mib
                top = max(top, gpu.memory_total_mib or 0)
        if not used:
            for process in snapshot.processes:
                if process.used_mib is not None:
                    key = process.gpu if isinstance(process.gpu, int) else 0
                    used[key] = used.get(key, 0.0) + process.used_mib
        for index, value in used.items():
            courses.setdefault(index, []).append((float(place), value / 1024))
            top = max(top, value)
    if len(snapshots) < 2 or not courses or top <= 0:
        return ""
    ends = [snapshots[place].time or f"{snapshots[place].source.input}:{snapshots[place].source.line}" for place in (0, -1)]
    drawn = [Course(f"GPU {index}", tuple(course)) for index, course in sorted(courses.items())]
    return _chart(drawn, top / 1024, "GiB", (ends[0], ends[1]), identifier, _("Memory over time"))


def series_svgs(series: Sequence[Series], identifier: str, _: Translate) -> list[tuple[str, str]]:
    """(what it shows, picture) of every series worth one: those with at least three readings, and known ones only."""
    found: list[tuple[str, str]] = []
    for name, title in SERIES.items():
        courses = [one for one in series if one.name == name and len(one.points) >= 3]
        if not courses:
            continue
        values = [float(value) for one in courses for _time, value in one.points]
        top = 100.0 if courses[0].unit == "%" else max(values)
        if top <= 0:
            continue
        drawn = []
        for one in courses:
            stride = max(1, len(one.points) // _POINTS)
            points = tuple((float(place), float(value)) for place, (_time, value) in enumerate(one.points) if place % stride == 0)
            drawn.append(Course(f"rank {one.rank}" if one.rank is not None and len(courses) > 1 else "", points))
        first, last = str(courses[0].points[0][0] or ""), str(courses[0].points[-1][0] or "")
        words = _(title)
        unit = courses[0].unit if courses[0].unit not in ("count", "requests") else ""
        found.append((words, _chart(drawn, top, unit, (first, last), f"{identifier}-{len(found)}", words)))
    return found


def _chart(courses: Sequence[Course], top: float, unit: str, ends: tuple[str, str], identifier: str, title: str) -> str:
    last = max(max(at for at, _value in course.points) for course in courses) or 1.0
    figure = f"{top:.0f}" if top >= 100 else f"{top:.1f}"
    low, high = (pick(value for course in courses for _at, value in course.points) for pick in (min, max))
    said = f"{title}: {low:.1f} – {high:.1f} {unit}".strip()
    out = [
        f'<svg class="chart" width="100%" height="{_HEIGHT}" role="img" aria-labelledby="{identifier}-t" xmlns="http://www.w3.org/2000/svg">',
        f'<title id="{identifier}-t">{escape(said)}</title>',
        f'<line class="axis" x1="0" x2="100%" y1="{_BOTTOM}" y2="{_BOTTOM}"/>',
        f'<line class="axis thin" x1="0" x2="100%" y1="{_TOP}" y2="{_TOP}"/>',
        f'<text class="mark" x="0" y="{_TOP - 5}">{escape(f"{figure} {unit}".strip())}</text>',
        f'<svg x="0" y="{_TOP}" width="100%" height="{_BOTTOM - _TOP}" viewBox="0 0 1000 100" preserveAspectRatio="none">',
    ]
    for place, course in enumerate(courses):
        points = " ".join(f"{at / last * 1000:.1f},{100 - min(max(value / top, 0), 1) * 100:.2f}" for at, value in course.points)
        out.append(f'<polyline class="course course-{place % 8}" points="{points}"><title>{escape(course.name)}</title></polyline>')
    out.append("</svg>")
    named = [course.name for course in courses if course.name]
    if named:
        step = min(100 / (len(named) + 1), 12)
        for place, name in enumerate(named[:8]):
            x = 100 - (min(len(named), 8) - 1 - place) * step
            words = f"— {escape(name)}"
            out.append(f'<text class="mark legend legend-{place}" x="{x:.1f}%" y="{_TOP - 5}" text-anchor="end">{words}</text>')
    out.append(f'<text class="mark" x="0" y="{_HEIGHT - 6}">{escape(ends[0][:40])}</text>')
    out.append(f'<text class="mark" x="100%" y="{_HEIGHT - 6}" text-anchor="end">{escape(ends[1][:40])}</text></svg>')
    return "".join(out)
