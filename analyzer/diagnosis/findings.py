"""Builds findings: words, evidence and fixes for a verdict and for everything else that was recognised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzer.diagnosis import kernel, order, proof, words
from analyzer.diagnosis.have import have
from analyzer.diagnosis.notes import notes, too_strict
from analyzer.diagnosis.rules.service import standing_queue
from analyzer.diagnosis.verdict import Verdict, severity
from analyzer.engines import device, engine
from analyzer.model import (
    Action,
    Change,
    Confidence,
    EnvChange,
    Finding,
    Fix,
    FlagChange,
    Ledger,
    OptionChange,
    Severity,
    Source,
    State,
    Text,
)
from analyzer.model.units import human
from analyzer.model.versions import Range

if TYPE_CHECKING:
    from analyzer.engines.case import Case
    from analyzer.facts.observation import Event
    from analyzer.facts.view import View
    from analyzer.patterns.model import Advice, Library, Pattern

#: Evidence lines of one finding: what proves it, not everything that was read.
EVIDENCE = 16
#: Findings beside the root: one a cause, the first ones in reading order.
FINDINGS = 40


def root_finding(case: Case, verdict: Verdict, library: Library) -> Finding:
    """The finding on which the outcome rests."""
    view = case.view
    cause = library.causes.get(verdict.cause) if verdict.cause is not None else None
    if cause is None:
        return _open_finding(case, verdict, library)
    known = figures(case)
    arithmetic = engine(view.engine)
    pattern = verdict.event.pattern if verdict.event is not None else None
    cause = cause.of(view.engine)
    said = _telling(case, cause.id)
    fixes = said.fixes if said is not None and said.fixes is not None else cause.fixes
    needs = said.needs if said is not None and said.needs is not None else cause.needs
    against = said.not_this if said is not None and said.not_this is not None else cause.not_this
    against = tuple(name for name in against if _for_engine(library.advice.get(name), view))
    of_family = pattern.text if pattern is not None and pattern.cause in library.families else None
    changed = build_fixes(fixes, case, library)
    evidence = _evidence(case, verdict, library, changed)
    return Finding(
        cause.id,
        Severity(cause.severity),
        verdict.confidence,
        Text.of(cause.title),
        words.explanation(cause, of_family or (said.text if said is not None else None), known),
        evidence,
        root=True,
        needs=words.needs([arithmetic.need(name, view) for name in needs if not have(name, view)], library, known),
        not_this=words.not_this(against, library, known),
        fixes=changed,
        pattern=pattern.id if pattern is not None else None,
        stage=verdict.stage,
        window=arithmetic.window(case, changed),
    )


def _telling(case: Case, cause: str) -> Pattern | None:
    """The pattern whose words and advice hold: the failing line's own, or that of another line of the same cause that has words of its own.

    An assertion on the GPU is printed by the kernel and names the check; the error that the engine raises is the same for all of them.
    """
    first = case.event.pattern if case.event is not None and case.event.cause == cause else None
    if first is None or first.text is not None:
        return first
    beside = (event.pattern for event in case.view.attempt.all_events() if event.cause == cause)
    return next((pattern for pattern in beside if pattern.text is not None), first)


def _open_finding(case: Case, verdict: Verdict, library: Library) -> Finding:
    """Where the cause is open: what is known of its family, and what would settle it."""
    view, known, failed = case.view, figures(case), verdict.state is State.FAILED
    pattern = verdict.event.pattern if verdict.event is not None else None
    family = library.families.get(pattern.cause or "") if pattern is not None and failed else None
    named = _open_needs(view, library, failed=failed)
    if pattern is not None and pattern.marks == "suspect":
        named = tuple(name for name in named if name != "first_worker_error")  # it is there
    line = pattern.text if pattern is not None and (failed or pattern.marks == "suspect" or pattern.keeps_running) else None
    title, text = words.UNKNOWN_TITLE, _open_words(view, line, known, verdict)
    fixes: tuple[Fix, ...] = ()
    if family is not None and pattern is not None:
        title, text = Text.of(family.title), words.explanation(family, pattern.text, known)
        fixes = build_fixes(family.fixes, case, library)
        named = (*(name for name in family.needs if not have(name, view)), *named)
    asked = dict.fromkeys(engine(view.engine).need(name, view) for name in named)
    return Finding(
        None,
        Severity.ERROR if failed else Severity.INFO,
        verdict.confidence,
        title,
        text,
        _evidence(case, verdict, library, ()),
        root=True,
        needs=words.needs(list(asked), library, known),
        fixes=fixes,
        pattern=pattern.id if pattern is not None else None,
        stage=verdict.stage,
    )


def other_findings(case: Case, verdict: Verdict, library: Library) -> list[Finding]:
    """Everything else that was recognised, one finding a cause, in reading order; consequences say of what."""
    view = case.view
    found: dict[str, Finding] = {}
    known = figures(case)
    for event in view.attempt.all_events():
        cause_id = order.refined(event, library.causes)
        if cause_id is None or cause_id in found or f"{verdict.cause}.".startswith(f"{cause_id}."):
            continue  # the root itself, or a rank that names it more coarsely
        cause = library.causes[cause_id].of(view.engine)
        if verdict.cause is None and not cause.echo and verdict.event is not None and event.pattern is verdict.event.pattern:
            continue  # the root, whose cause stays open though its stage suggests one
        stopping = view.attempt.shutdown_order is not None and event.order > view.attempt.shutdown_order
        if cause.echo and stopping and verdict.state in (State.HEALTHY, State.DEGRADED):
            continue  # what a server says of its own parts while it is being stopped explains nothing
        grave = severity(event, cause_id, library.causes)
        if order.overcome(event, view.attempt, library.causes) and grave is Severity.ERROR:
            grave = Severity.INFO
        if grave is Severity.ERROR and (verdict.state is State.HEALTHY or _stood_before(event, verdict)):
            grave = Severity.WARNING
        found[cause_id] = Finding(
            cause_id,
            grave,
            Confidence(event.pattern.confidence) if event.pattern.confidence else Confidence.CERTAIN,
            Text.of(cause.title),
            words.explanation(cause, event.pattern.text, known),
            tuple(view.source(place) for place in event.places),
            consequence_of=_consequence_of(cause_id, verdict, library, grave),
            pattern=event.pattern.id,
            stage=order.stage_of(event),
        )
        if len(found) >= FINDINGS:
            break
    if verdict.state in (State.HEALTHY, State.DEGRADED):
        said = frozenset({verdict.cause, *found})
        return [*found.values(), *notes(case, library, known, said)]
    return [*found.values(), *too_strict(case, library, known, frozenset({verdict.cause, *found}))]


def _stood_before(event: Event, verdict: Verdict) -> bool:
    """Whether the kernel printed ``event`` before the line on which the outcome rests: it did not follow from that."""
    return verdict.event is not None and kernel.precedes(event, verdict.event)


def _consequence_of(cause: str, verdict: Verdict, library: Library, grave: Severity) -> str | None:
    """The root's cause, where this one follows from it: by its list, as a messenger, or because a rule replaced it."""
    if verdict.cause is None or verdict.cause not in library.causes or grave is not Severity.ERROR:
        return None
    if cause in library.causes[verdict.cause].consequences or library.causes[cause].echo or cause == verdict.follows:
        return verdict.cause
    return None


#: Figures of which the smallest is the one to speak of.
LEAST = ("disk.free", "shm.free", "file.size")


def figures(case: Case) -> dict[str, str | Text]:
    """Everything that a sentence may fill in: facts of the inputs, those of the failing line last, and what the engine derives."""
    view = case.view
    rank = case.rank
    own = [fact for fact in view.facts if rank is None or fact.rank in (None, rank)]
    known: dict[str, str | Text] = {**words.figures([*view.documents, *own, *case.figures])}
    for name in LEAST:  # of several disks or files the one that is short
        facts = [fact for fact in [*view.documents, *view.facts] if fact.name == name and fact.bytes is not None]
        if facts:
            known |= words.figures([min(facts, key=lambda fact: fact.bytes or 0)])
    if (room := device.room(case.figures)) is not None:
        known["oom_room"] = human(room)
    known |= proof.named(view) | standing_queue(view)
    if case.event is not None:
        known |= {f"group_{name}": value for name, value in view.groups(case.event).items()}
    return known | dict(engine(view.engine).extra_figures(case))


def _evidence(case: Case, verdict: Verdict, library: Library, fixes: Sequence[Fix]) -> tuple[Source, ...]:
    """The lines that prove it: the failing line, the frame that decided, the last progress, what rules added, the ledger's figures."""
    view = case.view
    found: list[Source] = []

    def add(sources: Iterable[Source]) -> None:
        for source in sources:
            if len(found) < EVIDENCE and not any(source.input == other.input and source.line == other.line for other in found):
                found.append(source)

    event = verdict.event
    if event is not None:
        add(view.source(place) for place in event.places)
        add(view.source(place) for place in order.deciding_frames(event))
    add(verdict.evidence)
    add(view.source(place) for place in verdict.places)
    add(proof.signs(view, verdict, library))
    add(proof.figures(view, verdict))
    add(_others_of_this_cause(case, verdict, library))
    add(case.earlier_evidence)
    add(_settings_to_change(case, fixes))
    add(_documents(case, verdict))
    add(_course(case, verdict))
    stage = verdict.stage
    if stage is not None and stage in view.attempt.stages:
        add([view.source(view.attempt.last_stage_places[stage]), view.source(view.attempt.stages[stage])])
    if event is None and view.attempt.ready is not None:
        add([view.source(view.attempt.ready)])
    if event is None and view.attempt.last_statistics is not None:
        add([view.source(view.attempt.last_statistics)])
    if event is None and verdict.state is State.UNKNOWN:
        add(view.source(place) for place in reversed(view.attempt.recent))
    if case.ledger is not None and (verdict.cause is None or verdict.cause.startswith(MEMORY_FAMILIES)):
        add(line.source for line in case.ledger.lines if line.source is not None)
        for name in ("kv_cache.gpu_blocks", "kv_cache.tokens"):
            fact = view.fact(name)
            if fact is not None:
                add([fact.source])
    add(proof.dead_workers(view, verdict))
    add(_messengers(case, verdict, library))
    return tuple(found)


#: Families whose proof is also the arithmetic: their ledger's lines belong to the evidence.
MEMORY_FAMILIES = ("cuda_oom", "kv_cache", "startup", "unified_memory", "engine.version_bug", "healthy")


def _others_of_this_cause(case: Case, verdict: Verdict, library: Library) -> list[Source]:
    """Other lines that say the same: other ranks, and the exception that the engine raises from it."""
    view = case.view
    if verdict.event is None or verdict.cause is None:
        return []
    found = []
    same = {cause for cause in (verdict.cause, verdict.follows) if cause is not None}
    for event in view.attempt.all_events():
        if event is not verdict.event and order.refined(event, library.causes) in same:
            found += [view.source(place) for place in event.places]
    return [*found[:3], *found[3:][-1:]]


def _messengers(case: Case, verdict: Verdict, library: Library) -> list[Source]:
    """The first lines of what followed from a failure."""
    if verdict.cause not in library.causes or verdict.state is not State.FAILED:
        return []
    follows = library.causes[verdict.cause].consequences
    found: dict[str, Source] = {}
    for event in case.view.attempt.all_events():
        cause = order.refined(event, library.causes)
        if cause is not None and cause not in found and (cause in follows or library.causes[cause].echo):
            found[cause] = case.view.source(event.places[0])
    return list(found.values())[:4]


def _settings_to_change(case: Case, fixes: Sequence[Fix]) -> list[Source]:
    """The lines that state what the fixes change."""
    view = case.view
    found = []
    for fix in fixes:
        for change in fix.changes:
            if isinstance(change, FlagChange) and change.flag in view.settings:
                found.append(view.settings[change.flag].source)
            elif isinstance(change, EnvChange) and change.env in view.environment:
                found.append(view.environment[change.env].source)
    return found[:3]


#: Facts of documents (dumps, df, docker inspect …) that belong to the proof, by family of the cause.
DOCUMENT_FACTS = {
    "shm": ("shm.",),
    "disk": ("disk.",),
    "host_oom": ("host.", "process.exit_code", "process.rss"),
    "checkpoint": ("file.",),
    "ray": ("ray.",),
    "server": ("process.used",),
    "startup": ("process.used",),
    "args": ("host.",),
}
#: Families for which the dump's banner (driver and CUDA version, the card's name) is part of the proof.
BANNER_FAMILIES = frozenset({"driver", "kernel", "quantization", "dtype"})


def _documents(case: Case, verdict: Verdict) -> list[Source]:
    family = (verdict.cause or "").split(".")[0]
    prefixes = DOCUMENT_FACTS.get(family, ())
    found = [fact.source for fact in case.view.documents if prefixes and fact.name.startswith(prefixes)][:4]
    if family in BANNER_FAMILIES:
        found += [snapshot.source for snapshot in case.view.snapshots[-1:]]
    return found


#: Statistics that tell how a service was when it was short of something.
COURSE_FACTS = {
    "kv_cache": ("kv_cache.usage", "scheduler.preemptions"),
    "scheduler": ("kv_cache.usage", "scheduler.waiting"),
    "request": (),
}


def _course(case: Case, verdict: Verdict) -> list[Source]:
    """For causes that show in statistics: the line after the failure, the highest and the last; refused requests for theirs."""
    view = case.view
    family = (verdict.cause or "").split(".")[0]
    if verdict.stage != "serving" or family not in (*COURSE_FACTS, "tokenizer"):
        return []
    found = [view.source(place) for place in view.attempt.refusals[:2]] if family in ("request", "tokenizer") else []
    if verdict.event is not None and verdict.event.statistics is not None and family in COURSE_FACTS:
        found.append(view.source(verdict.event.statistics))
    for name in COURSE_FACTS.get(family, ()):
        facts = [fact for fact in view.all(name) if isinstance(fact.value, (int, float))]
        if facts:
            found += [max(facts, key=lambda fact: float(fact.value)).source, facts[-1].source]
    return found


def _open_words(view: View, line: Mapping[str, str] | None, known: words.Known, verdict: Verdict) -> Text:
    """What is said where the cause is open: what is known of the very ``line``, else what the text lacks."""
    said = words.fill(line, known) if line else None
    if said is not None:
        return said
    if verdict.state is State.FAILED:
        if any(traceback.ends for traceback in view.attempt.unfinished.values()):
            return words.UNKNOWN_CUT
        started = view.command is not None and not (view.attempt.stages or view.attempt.processes)  # the command and how it ended
        headless = view.engine is not None and not view.attempt.markers and view.attempt.ready is None and not started
        return words.UNKNOWN_HEADLESS if headless else words.UNKNOWN_FAILED
    if verdict.event is not None:
        return words.UNKNOWN_BESIDE
    if view.attempt.shutdown is not None:
        return words.UNKNOWN_STOPPED
    return words.UNKNOWN_OPEN if view.engine or view.attempt.patterns or view.readings else words.UNKNOWN_NOTHING


def _open_needs(view: View, library: Library, *, failed: bool) -> tuple[str, ...]:
    """What to ask for where the cause is open: what its symptoms ask for, then the missing part of the log.

    A symptom that the run got over, a worker that answered again, asks for nothing.
    """
    names: list[str] = []
    latest = max((seen for _, seen in view.attempt.progress.values()), default=0)
    for event in view.attempt.all_events():
        if event.pattern.keeps_running and event.order < latest:
            continue
        cause = library.causes.get(order.refined(event, library.causes) or "")
        names += [*(event.pattern.needs or ()), *(cause.needs if cause is not None else ())]
    if failed:
        names += ["log_head", "first_worker_error"]
    else:
        names.append("what_follows" if view.attempt.stage is not None and view.attempt.shutdown is None else "log_head")
    # What a command says is no log: only the engine's own word on its arguments shows that the log is there from its beginning.
    beginning = view.arguments_seen and bool(view.attempt.markers)
    return tuple(name for name in dict.fromkeys(names) if not have(name, view) or (name == "log_head" and not beginning))


# --- fixes -------------------------------------------------------------------------------------------------------------------------


def build_fixes(names: Sequence[str], case: Case, library: Library) -> tuple[Fix, ...]:
    """The named fixes that hold here: flags exist in this version, computed ones fit, every figure of their words is known."""
    found = []
    for name in names:
        advice = library.advice.get(name)
        if advice is not None and (not advice.engines or case.view.engine in advice.engines):
            if any(have(need, case.view) for need in advice.unless):
                continue
            fix = _static(advice, case) if advice.changes else _computed(advice, case)
            if fix is not None:
                found.append(fix)
    sure = [fix for fix in found if not _only_in_part(fix, case.view)]
    unsure = [] if len(sure) >= ENOUGH else [fix for fix in found if _only_in_part(fix, case.view)]
    return tuple([*sure, *unsure][:FIXES])


#: Fixes that are shown, and how many that are valid for certain make those superfluous that some possible versions do not have.
FIXES, ENOUGH = 5, 3


def _only_in_part(fix: Fix, view: View) -> bool:
    """Whether some of the possible versions lack a flag of the fix, and not one that the user's own command shows to be there."""
    if fix.versions is None or view.version is not None:
        return False
    flags = [change.flag for change in fix.changes if isinstance(change, FlagChange) and change.to is not None]
    if flags and all(view.setting(flag) is not None for flag in flags):
        return False
    possible = engine(view.engine).possible_versions(view)
    return (possible & Range.parse(fix.versions)) != possible


def _for_engine(advice: Advice | None, view: View) -> bool:
    """Whether the advice is for the engine that ran and, where it names versions, for every one that is possible."""
    if advice is None or (advice.engines and view.engine not in advice.engines):
        return False
    if advice.versions is None:
        return True
    possible = engine(view.engine).possible_versions(view)
    return (possible & Range.parse(advice.versions)) == possible


def _static(advice: Advice, case: Case) -> Fix | None:
    known = figures(case)
    changes = tuple(change for change in (_change(values, case, known) for values in advice.changes) if change is not None)
    arithmetic = engine(case.view.engine)
    if len(changes) != len(advice.changes) or not arithmetic.valid(changes, case.view):
        return None
    versions = advice.versions or arithmetic.versions(changes, case.view)
    return _worded(advice, changes, known, None, versions, verified=not any(isinstance(change, FlagChange) for change in changes))


def _computed(advice: Advice, case: Case) -> Fix | None:
    arithmetic = engine(case.view.engine)
    result = arithmetic.compute(advice.name, case)
    if result is None or not arithmetic.valid(result.changes, case.view):
        return None
    known: words.Known = {**figures(case), **result.values}
    versions = result.versions or arithmetic.versions(result.changes, case.view)
    return _worded(advice, result.changes, known, result.predicted, versions, verified=result.verified)


def _worded(
    advice: Advice, changes: tuple[Change, ...], known: words.Known, predicted: Ledger | None, versions: str | None, *, verified: bool
) -> Fix | None:
    title, why = words.fill(advice.words["title"], known), words.fill(advice.words["why"], known)
    if title is None or why is None:
        return None
    cost = words.fill(advice.words["cost"], known) if "cost" in advice.words else None
    return Fix(title, changes, why, cost, predicted, versions, verified)


def _change(values: dict[str, Any], case: Case, known: words.Known) -> Change | None:
    if "flag" in values:
        return FlagChange(values["flag"], case.view.setting(values["flag"]), values["to"])
    if "env" in values:
        return EnvChange(values["env"], None if values["to"] is None else str(values["to"]))
    if "option" in values:
        return OptionChange(values["option"], values["of"], str(values["to"]))
    text = words.fill(values["action"], known)
    return None if text is None else Action(text)
