"""What every rendering says in the same way: the verdict line, the engine line, which ledgers to show, how a change is spelled."""

from __future__ import annotations

import re

from analyzer.model import Action, Change, EnvChange, Fix, FlagChange, Ledger, OptionChange, Report, Source, State, TimelineStep
from analyzer.model.versions import Range
from analyzer.report import messages
from analyzer.report.messages import N_, Translate

#: Ledgers that differ by less than this on every line are shown once.
SAME_BYTES = 50 * 2**20
#: Full ledgers shown in text; the rest is in the JSON.
SHOWN = 4


def verdict(report: Report, language: str, _: Translate) -> str:
    """``FAILED at graph capture · CUDA graphs did not fit … · certain``."""
    outcome = report.outcome
    state = _(messages.STATES[outcome.state.value])
    if outcome.stage is not None:
        stage = _(messages.STAGES[outcome.stage])
        state = _(N_("{state} at {stage}")).format(state=state, stage=stage) if outcome.state.value == "failed" else f"{state} · {stage}"
    root = report.root
    parts = [state]
    if root is not None:
        parts.append(root.title.get(language))
    if outcome.cause is not None:
        parts.append(_(messages.CONFIDENCE[outcome.confidence.value]))
    return " · ".join(parts)


def engine_line(report: Report, _: Translate, url: str | None) -> str:
    """``vLLM 0.6.5 to 0.10.2 (V0, inferred) · 2 ranks · engine.log, 26 lines · http://…``."""
    engine = report.engine
    parts = []
    if engine.name is not None:
        name = messages.ENGINES.get(engine.name, engine.name)
        notes = [engine.generation.upper()] if engine.generation else []
        version = engine.version or ""
        if engine.version is None and engine.version_range:
            version = _range(engine.version_range, _)
            notes.append(_(N_("inferred")))
        parts.append(" ".join(filter(None, (name, version, f"({', '.join(notes)})" if notes else ""))))
    ranks = {ledger.rank for ledger in report.ledgers if ledger.rank is not None}
    if len(ranks) > 1:
        parts.append(_(N_("{count} ranks")).format(count=len(ranks)))
    if len(report.attempts) > 1:
        parts.append(_(N_("start {last} of {count}")).format(last=len(report.attempts), count=len(report.attempts)))
    for info in report.inputs[:4]:
        words = _(N_("{name}, {count} lines")) if info.lines != 1 else _(N_("{name}, {count} line"))
        parts.append(words.format(name=info.name, count=f"{info.lines:,}"))
    if url:
        parts.append(url)
    return " · ".join(parts)


def _range(versions: str, _: Translate) -> str:
    """``>=0.6.5,<=0.10.2`` as ``0.6.5 to 0.10.2``."""
    bounds = Range.parse(versions)
    if bounds.low is not None and bounds.high is not None:
        high = bounds.high if bounds.high_included else _(N_("before {version}")).format(version=bounds.high)
        return bounds.low if bounds.low == bounds.high else _(N_("{low} to {high}")).format(low=bounds.low, high=high)
    if bounds.low is not None:
        return _(N_("{version} or newer")).format(version=bounds.low)
    return (
        _(N_("before {version}")).format(version=bounds.high)
        if not bounds.high_included
        else _(N_("up to {version}")).format(version=bounds.high)
    )


def valid_in(fix: Fix, report: Report, _: Translate) -> str:
    """`` (0.10.2 or newer)`` where the fix is not valid in every version that is possible."""
    if fix.versions is None or report.engine.version is not None or not any(isinstance(c, (FlagChange, EnvChange)) for c in fix.changes):
        return ""
    valid = Range.parse(fix.versions)
    possible = Range.parse(report.engine.version_range or "")
    if (possible & valid) == possible:
        return ""
    return f" ({_range(fix.versions, _)})"


def heading(ledger: Ledger, report: Report, _: Translate) -> str:
    """``GPU 0 at the failure``: whose ledger it is, and of which moment."""
    name = _(N_("GPU {index}")).format(index=ledger.gpu) if ledger.gpu is not None else _(N_("GPU"))
    return f"{name} {moment(report, _)}"


def moment(report: Report, _: Translate) -> str:
    """The moment that the ledgers show."""
    if report.outcome.state is State.FAILED:
        return _(N_("at the failure"))
    return _(N_("when ready")) if report.outcome.state in (State.HEALTHY, State.DEGRADED) else _(N_("as far as the inputs tell"))


def steps(fix: Fix, language: str) -> list[str]:
    """What a fix asks to be set or done, as far as its title does not say it."""
    title = fix.title.get(language)
    return [change(item, language) for item in fix.changes if _named(item, language) not in title]


def to_do(fix: Fix, language: str, _: Translate) -> list[str]:
    """Those steps as a sentence, where there are any."""
    found = steps(fix, language)
    return [_(N_("To do: {steps}.")).format(steps=_(N_("; ")).join(found))] if found else []


def _named(item: Change, language: str) -> str:
    if isinstance(item, FlagChange):
        return item.flag
    if isinstance(item, EnvChange):
        return item.env
    return item.option if isinstance(item, OptionChange) else item.action.get(language)


def shown_ledgers(report: Report) -> list[tuple[Ledger, list[int]]]:
    """(ledger, other GPUs that are like it), the one that tells most about the failure first."""
    ranked = sorted(report.ledgers, key=lambda ledger: (ledger.get("process") is None and ledger.get("free") is None, ledger.gpu or 0))
    groups: list[tuple[Ledger, list[int]]] = []
    for ledger in ranked:
        for known, others in groups:
            if _alike(known, ledger):
                others.append(ledger.gpu if ledger.gpu is not None else -1)
                break
        else:
            groups.append((ledger, []))
    return groups[:SHOWN]


def _alike(first: Ledger, second: Ledger) -> bool:
    mine = {line.name: line.bytes for line in first.lines}
    theirs = {line.name: line.bytes for line in second.lines}
    return mine.keys() == theirs.keys() and all(abs(mine[name] - theirs[name]) < SAME_BYTES for name in mine)


def place(source: Source, report: Report, _: Translate) -> str:
    """``line 3``, with the file's name where there are several."""
    if len(report.inputs) > 1:
        return f"{source.input}:{source.line}"
    return _(N_("line {number}")).format(number=source.line)


#: The longest first: some begin with another one.
_WORDS = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, sorted(messages.FORMULAS, key=len, reverse=True))) + r")(?!\w)")


def formula(text: str, _: Translate) -> str:
    """A formula with its words in the language of ``_``."""
    return _WORDS.sub(lambda found: _(found[0]), text)


def change(item: Change, language: str) -> str:
    """A change as somebody would type or say it."""
    if isinstance(item, FlagChange):
        if item.to is None:
            return f"{item.flag} ✗"
        if item.to is True:
            return item.flag
        return f"{item.flag} {item.before} → {item.to}" if item.before is not None else f"{item.flag} {item.to}"
    if isinstance(item, EnvChange):
        return f"unset {item.env}" if item.to is None else f"{item.env}={item.to}"
    if isinstance(item, OptionChange):
        return f"{item.of} {item.option} {item.to}"
    assert isinstance(item, Action)
    return item.action.get(language)


def step(item: TimelineStep, _: Translate) -> str:
    """``loading weights 62.3 s (slowest)``."""
    seconds = f"{item.seconds:.0f} s" if item.seconds >= 100 or not item.stated else f"{item.seconds:.1f} s"
    shown = f"{_(messages.STEPS[item.name])} {seconds}"
    return _("{step} (slowest)").format(step=shown) if item.slowest else shown


def timeline(report: Report, _: Translate) -> list[str]:
    """The steps of the start, one text each; what is part of another step stands behind it."""
    shown = []
    for item in report.timeline:
        if item.within is not None:
            continue
        parts = [step(part, _) for part in report.timeline if part.within == item.name]
        shown.append(step(item, _) + (" " + _("[of it {steps}]").format(steps=", ".join(parts)) if parts else ""))
    return shown
