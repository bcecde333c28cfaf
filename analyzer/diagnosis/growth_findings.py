"""What a course of memory means, in words and as a finding: pre-allocation, plateau, a process that came later, or a straight line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analyzer.diagnosis import words
from analyzer.diagnosis.growth import SHORTEST, Growth, Kind, flat_tail
from analyzer.diagnosis.tracks import CARD, HOST, PROCESS, Track, tracks
from analyzer.engines import dumps
from analyzer.engines.reconcile import is_display
from analyzer.model import Confidence, Finding, Severity, Source, State, Text
from analyzer.model.units import GIB, MIB, human

if TYPE_CHECKING:
    from analyzer.diagnosis.verdict import Verdict
    from analyzer.engines.case import Case
    from analyzer.patterns.model import Library

PREALLOCATION, PLATEAU, LEAK, JOINED = (
    "healthy.kv_preallocation", "healthy.growth_plateau", "engine.version_bug.gpu_leak", "cuda_oom.serving.other_process",
)  # fmt: skip
GREW = ("engine.version_bug.gpu_leak", "host_oom.killed.rss_growth", "unified_memory.exhausted")
#: From less than this share of the later level, a rise is the start of the engine and no growth of a running one.
EMPTY = 0.25
#: A rise that is worth asking about, and a neighbour that is worth naming.
WORTH, NEIGHBOUR = GIB, GIB
#: Courses that are judged: more cards and processes of one machine tell nothing new.
JUDGED = 32


def apply(case: Case, verdict: Verdict, library: Library, findings: Sequence[Finding]) -> list[Finding]:
    """``findings`` with what the courses of memory add: sentences to those there are, further ones, and what to collect where they end."""
    found = list(findings)
    every = tracks(case.view)
    seen = [(track, track.judged()) for track in _telling(case, every)[:JUDGED]]
    for cause, severity, sure, text, sources in _findings(case, seen, every):
        place = next((at for at, finding in enumerate(found) if finding.cause == cause), None)
        if place is not None:
            known = found[place]
            found[place] = replace(known, explanation=_joined(known.explanation, text), evidence=_evidence(known.evidence, sources))
        elif cause in library.causes and not _said_better(cause, verdict):
            entry = library.causes[cause]
            title = Text.of(entry.title)
            whole = text if cause == JOINED else _joined(Text.of(entry.text), text)
            needs = words.needs(entry.needs, library, {}) if severity is Severity.WARNING else ()
            against = words.not_this(entry.not_this, library, {})
            found.append(Finding(cause, severity, sure, title, whole, tuple(sources), needs=needs, not_this=against, stage=verdict.stage))
    root = next((at for at, finding in enumerate(found) if finding.root), None)
    if root is not None:
        found[root] = _root(found[root], verdict, library, seen)
    return found


def _said_better(cause: str, verdict: Verdict) -> bool:
    """Whether the outcome says it already, or excludes it."""
    if cause == JOINED:
        return verdict.state is State.FAILED
    return verdict.state is State.FAILED and cause != LEAK


def _telling(case: Case, found: Sequence[Track]) -> list[Track]:
    """Of each card the engine's own processes, where they are listed, else the card; and every course of the host."""
    family = dumps.wanted(case, None, None).family
    named = ("VLLM::", "sglang::")
    mine = [track for track in found if track.name == PROCESS and (track.pid in family or (track.who or "").startswith(named))]
    rest = [track for track in found if track.name not in (CARD, PROCESS)]
    if mine:
        return [*mine, *rest]
    listed = [track for track in found if track.name == CARD]
    return [*(listed or [track for track in found if track.name == PROCESS]), *rest]


def _findings(
    case: Case, seen: Sequence[tuple[Track, Growth]], every: Sequence[Track]
) -> Iterator[tuple[str, Severity, Confidence, Text, list[Source]]]:
    """(cause, severity, confidence, sentence, lines) of each course of a card or process that says something."""
    engine = case.view.engine is not None or any((track.who or "").startswith("VLLM::") for track, _ in seen)
    said: set[str] = set()
    for track, growth in seen:
        if track.name not in (CARD, PROCESS):
            continue
        sources = [track.readings[growth.first].source, track.readings[-1].source]
        start = min(track.values) < EMPTY * track.values[-1]
        cause = None
        if growth.kind is Kind.LINE:
            cause, severity = LEAK, Severity.WARNING
        elif growth.kind is Kind.PLATEAU and not start:
            cause, severity = PLATEAU, Severity.INFO
        elif growth.kind is Kind.LEVEL or (growth.kind in (Kind.STEP, Kind.PLATEAU) and start):
            cause, severity = (PREALLOCATION if track.values[-1] > WORTH else None), Severity.INFO
        if cause is not None and cause not in said and engine:
            said.add(cause)
            sure = Confidence.LIKELY if track.times is not None and growth.count - growth.first >= 2 * SHORTEST else Confidence.POSSIBLE
            yield cause, severity, Confidence.LIKELY if cause != LEAK else sure, sentence(track, growth), sources
    if engine:
        yield from _joined_later(case, every)


def _joined_later(case: Case, every: Sequence[Track]) -> Iterator[tuple[str, Severity, Confidence, Text, list[Source]]]:
    """Processes that are not the engine's own, were not there in the first dumps, and hold more than the slack of a service."""
    family = dumps.wanted(case, None, None).family
    rows = {(row.gpu, row.pid): row for snapshot in case.view.snapshots for row in snapshot.processes}
    first = min((reading.place for track in every if track.name in (CARD, PROCESS) for reading in track.readings), default=0)
    engines = {track.gpu for track in every if track.name == PROCESS and track.pid in family}
    for track in every:
        row = rows.get((track.gpu, track.pid))
        if track.name != PROCESS or track.pid in family or track.readings[0].place <= first or (engines and track.gpu not in engines):
            continue
        top = max(track.readings, key=lambda reading: reading.size)
        if top.size < NEIGHBOUR or not engines or (row is not None and is_display(row)):
            continue
        who = f"{track.pid} ({track.who})" if track.who else f"{track.pid}"
        when = track.readings[0].moment
        text = Text(
            f"Process {who} came onto GPU {_index(track)} while the engine was running"
            f"{f', seen first at {when}' if when else ''}, and holds {human(top.size)}: a step, no growth of the engine.",
            f"进程 {who} 在引擎运行期间出现在 GPU {_index(track)} 上{f'（首次见于 {when}）' if when else ''}，占用 {human(top.size)}："
            "这是一次阶跃，不是引擎自身的增长。",
        )
        yield JOINED, Severity.WARNING, Confidence.LIKELY, text, [track.readings[0].source, top.source]
        return


def _root(root: Finding, verdict: Verdict, library: Library, seen: Sequence[tuple[Track, Growth]]) -> Finding:
    """The root with the course's numbers where it rests on one, and with what to collect where readings are too few."""
    if root.cause is not None and root.cause.startswith(GREW):
        names = HOST if root.cause.startswith("host") else (CARD, PROCESS, *HOST)
        for track, growth in seen:
            if track.name in names and growth.kind in (Kind.LINE, Kind.RISING):
                return replace(root, explanation=_joined(root.explanation, sentence(track, growth)))
        return root
    for track, growth in seen:
        rise = track.values[-1] - min(track.values)
        host = track.name in HOST
        unsure = growth.kind is Kind.RISING or (growth.kind is Kind.SHORT and len(track.values) >= 2) or (host and growth.kind is Kind.LINE)
        if unsure and rise >= WORTH and verdict.state is not State.FAILED and min(track.values) >= EMPTY * track.values[-1]:
            wanted = words.needs(["container_memory_series" if host else "memory_series"], library, {})
            needs = (*root.needs, *(need for need in wanted if need not in root.needs))
            return replace(root, explanation=_joined(root.explanation, sentence(track, growth)), needs=needs)
    return root


# --- words -------------------------------------------------------------------------------------------------------------------------


def sentence(track: Track, growth: Growth) -> Text:
    """The course in a sentence, with the figures on which its kind rests."""
    who, who_zh = _who(track)
    count = growth.count - growth.first
    over, over_zh = _duration(track, growth.first)
    last = human(track.values[-1])
    if growth.kind in (Kind.LINE, Kind.RISING):
        rate, rate_zh = _rate(track, growth)
        p = "p < 0.001" if growth.p < 0.001 else f"p = {growth.p:.3f}"
        straight = f"R² {growth.straightness:.3f}, {p}"
        if growth.kind is Kind.LINE:
            left, left_zh = _left(track, growth)
            return Text(
                f"{who}: {count} readings{over} rise by {rate}, in a straight line to the last one ({straight}).{left}",
                f"{who_zh}：{count} 次采样{over_zh}以{rate_zh}的速度直线上升，直到最后一次（{straight}）。{left_zh}",
            )
        return Text(
            f"{who}: {count} readings{over} rise by {human(growth.rise)}, neither in a straight line nor to a level ({straight}): "
            "a leak cannot be told from first use yet.",
            f"{who_zh}：{count} 次采样{over_zh}上升 {human(growth.rise)}，既非直线也未持平（{straight}）：还不能区分泄漏与首次使用。",
        )
    if growth.kind is Kind.PLATEAU:
        level = flat_tail(track.values[growth.first :])
        low = human(min(track.values[growth.first :]))
        return Text(
            f"{who}: of {count} readings{over} the first ones rise from {low}, the last {level} stay at {last}.",
            f"{who_zh}：{count} 次采样{over_zh}中，前段从 {low} 上升，最后 {level} 次保持在 {last}。",
        )
    if growth.kind is Kind.STEP and growth.jump is not None:
        moment = track.readings[growth.jump].moment
        at, at_zh = (f" at {moment}", f"在 {moment} ") if moment else ("", "")
        return Text(
            f"{who}: one step of {human(growth.jumped)}{at}, and {last} in all {count} readings after it.",
            f"{who_zh}：{at_zh}一次性增加 {human(growth.jumped)}，此后 {count} 次采样均为 {last}。",
        )
    if growth.kind is Kind.LEVEL:
        return Text(f"{who}: {count} readings{over} stay at {last}.", f"{who_zh}：{count} 次采样{over_zh}均保持在 {last}。")
    if growth.kind is Kind.VARIES:
        return Text(
            f"{who}: {count} readings{over} go up and down without a trend.", f"{who_zh}：{count} 次采样{over_zh}上下波动，没有趋势。"
        )
    rise = human(track.values[-1] - track.values[0])
    return Text(
        f"{who}: {len(track.values)} readings differ by {rise}. Fewer than {SHORTEST} at one height say nothing about growth.",
        f"{who_zh}：{len(track.values)} 次采样相差 {rise}。不足 {SHORTEST} 次采样无法判断是否增长。",
    )


def _who(track: Track) -> tuple[str, str]:
    if track.name == PROCESS:
        name = f" ({track.who})" if track.who else ""
        return f"GPU {_index(track)}, process {track.pid}{name}", f"GPU {_index(track)} 上的进程 {track.pid}{name}"
    if track.name == CARD:
        return f"GPU {_index(track)}", f"GPU {_index(track)}"
    names = {
        "process.rss": ("Resident host memory", "常驻主机内存"),
        "host.limit_used": ("The container's memory", "容器内存"),
        "host.used": ("The host's memory", "主机内存"),
    }
    en, zh = names.get(track.name, (track.name, track.name))
    return (f"{en} of process {track.pid}", f"进程 {track.pid} 的{zh}") if track.pid is not None else (en, zh)


def _index(track: Track) -> int:
    return track.gpu if track.gpu is not None else 0


def _duration(track: Track, first: int) -> tuple[str, str]:
    if track.times is None:
        return "", ""
    seconds = track.times[-1] - track.times[first]
    for size, en, zh in ((86400.0, "d", "天"), (3600.0, "h", "小时"), (60.0, "min", "分钟")):
        if seconds >= 2 * size:
            return f" over {seconds / size:.1f} {en}", f"在 {seconds / size:.1f} {zh}内"
    return f" over {seconds:.0f} s", f"在 {seconds:.0f} 秒内"


def _rate(track: Track, growth: Growth) -> tuple[str, str]:
    scale = 3600.0 if track.times is not None else 1.0
    slope, low, high = (human(size * scale) for size in (growth.slope, growth.low, growth.high))
    if track.times is not None:
        return f"{slope} per hour (95 %: {low} to {high})", f"每小时 {slope}（95% 区间 {low} 至 {high}）"
    return f"{slope} per reading (95 %: {low} to {high})", f"每次采样 {slope}（95% 区间 {low} 至 {high}）"


def _left(track: Track, growth: Growth) -> tuple[str, str]:
    """How long the rest of the card lasts at this rate."""
    if track.total is None or track.times is None or track.name != CARD or growth.slope <= 0:
        return "", ""
    rest = track.total - track.values[-1]
    hours = rest / growth.slope / 3600
    if rest < 64 * MIB or hours > 24 * 60:
        return "", ""
    return f" At this rate the remaining {human(rest)} last {hours:.1f} h.", f"照此速度，剩余的 {human(rest)} 还能维持 {hours:.1f} 小时。"


def _joined(first: Text, second: Text) -> Text:
    return Text(f"{first.en} {second.en}", f"{first.zh}{second.zh}")


def _evidence(known: Sequence[Source], more: Sequence[Source]) -> tuple[Source, ...]:
    there = {(source.input, source.line) for source in known}
    return (*known, *(source for source in more if (source.input, source.line) not in there))[:16]
