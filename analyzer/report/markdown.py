"""The report as Markdown, for an issue tracker: the same parts as on a terminal, tables for ledgers."""

from __future__ import annotations

import re

from analyzer.intake.lines import parse
from analyzer.model import Finding, Ledger, Report, Severity
from analyzer.model.units import gib
from analyzer.report import common, messages
from analyzer.report.gpus import Table, over_time, tables
from analyzer.report.layout import cut, safe
from analyzer.report.messages import N_, Translate, translator

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(report: Report, language: str, *, url: str | None = None) -> str:
    """The report as GitHub-flavoured Markdown. Text of the input is escaped or stands in code."""
    _ = translator(language)
    parts = [f"## {plain(common.verdict(report, language, _))}"]
    if report.outcome.cause is not None:
        parts.append(f"`{report.outcome.cause}`")
    elif report.fingerprint is not None:
        parts.append(_(messages.FINGERPRINT).format(fingerprint=f"`{report.fingerprint}`"))
    parts.append(plain(common.engine_line(report, _, None)) + (f" · <{url}>" if url else ""))
    root = report.root
    if root is not None:
        parts.append(plain(root.explanation.get(language)))
    steps = common.timeline(report, _)
    if steps:
        parts.append(plain(_(N_("Start-up: {steps}")).format(steps=" · ".join(steps))))
    parts += [_ledger(ledger, alike, report, _) for ledger, alike in common.shown_ledgers(report)]
    parts += [_table(table) for table in tables(report, _)]
    course = over_time(report.gpu_snapshots, _)
    parts += [_table(course)] if course is not None else []
    if root is not None:
        parts += _fixes(root, report, language, _)
        if root.not_this:
            items = [f"- ✗ `{item.advice.get(language)}`: {plain(item.why.get(language))}" for item in root.not_this]
            parts.append("\n".join(["### " + _(N_("Not this")), *items]))
        if root.evidence:
            lines = [cut(f"{source.input}:{source.line}  {safe(parse(source.text, source.line).body)}", 240) for source in root.evidence]
            parts.append("\n".join(["### " + _(N_("Proof")), fence("\n".join(lines))]))
    parts += _others(report, root, language, _)
    if root is not None and root.needs:
        parts.append("\n".join(["### " + _(N_("To be surer")), *(f"- {plain(need.get(language))}" for need in root.needs)]))
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """``text`` with what Markdown would take for markup escaped; code that our own sentences mark with backticks stays code."""
    pieces = safe(text).split("`")
    if len(pieces) % 2 == 0:
        return _SPECIAL.sub(r"\\\1", safe(text))
    return "`".join(_SPECIAL.sub(r"\\\1", piece) if place % 2 == 0 else piece for place, piece in enumerate(pieces))


def fence(text: str) -> str:
    """``text`` as a code block whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}\n{text}\n{ticks}"


def _ledger(ledger: Ledger, alike: list[int], report: Report, _: Translate) -> str:
    rows = [f"### {common.heading(ledger, report, _)}", "| | GiB | " + _(N_("basis")) + " | |", "|---|---:|---|---|"]
    for line in ledger.lines:
        where = common.place(line.source, report, _) if line.source is not None else ""
        detail = common.formula(line.formula or "", _)
        rows.append(
            f"| {_(messages.LINES[line.name])} | {gib(line.bytes):.2f} | {_(messages.BASIS[line.basis.value])} | {plain(detail or where)} |"
        )
    if alike:
        others = ", ".join(str(index) for index in alike if index >= 0)
        rows.append("")
        rows.append(_(N_("GPU {indices}: the same within 0.05 GiB")).format(indices=others))
    return "\n".join(rows)


def _table(table: Table) -> str:
    """A table whose cells may hold anything."""
    rule = "|" + "---|" * (len(table.columns) - table.numbers) + "---:|" * table.numbers
    head = "| " + " | ".join(plain(name) for name in table.columns) + " |"
    return "\n".join([f"### {table.title}", head, rule, *("| " + " | ".join(plain(cell) for cell in row) + " |" for row in table.rows)])


def _fixes(root: Finding, report: Report, language: str, _: Translate) -> list[str]:
    if not root.fixes:
        return []
    rows = ["### " + _(N_("What to change"))]
    for number, fix in enumerate(root.fixes, 1):
        said = " ".join([*common.to_do(fix, language, _), fix.why.get(language)])
        row = f"{number}. **{plain(fix.title.get(language))}**{plain(common.valid_in(fix, report, _))}: {plain(said)}"
        if fix.cost is not None:
            row += " " + _(N_("Cost:")) + " " + plain(fix.cost.get(language))
        if not fix.verified:
            row += " " + _(N_("(not verified against this log)"))
        rows.append(row)
    if root.window is not None:
        rows += ["", f"`{root.window.flag}`: {plain(root.window.text.get(language))}"]
    if report.command:
        rows += ["", _(N_("Your command, changed:")), "", fence(safe(report.command))]
    return ["\n".join(rows)]


def _others(report: Report, root: Finding | None, language: str, _: Translate) -> list[str]:
    parts = []
    rest = [finding for finding in report.findings if finding is not root]
    for title, chosen in (
        (_(N_("What followed")), [finding for finding in rest if finding.severity is Severity.ERROR]),
        (_(N_("Also seen")), [finding for finding in rest if finding.severity is not Severity.ERROR]),
    ):
        if chosen:
            items = [
                f"- `{finding.cause}`: {plain(finding.title.get(language))}"
                + (f". {plain(finding.explanation.get(language))}" if finding.severity is Severity.WARNING else "")
                for finding in chosen
            ]
            parts.append("\n".join([f"### {title}", *items]))
    return parts
