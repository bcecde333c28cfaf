"""The report on a terminal: verdict, picture, what to type, proof (ux.md)."""

from __future__ import annotations

from analyzer.intake.lines import parse
from analyzer.model import Finding, Ledger, Report, Severity, State
from analyzer.model.ledger import Basis, LedgerLine
from analyzer.model.units import gib, human
from analyzer.report import common, messages
from analyzer.report.gpus import tables
from analyzer.report.layout import Paint, bar, cut, pad, safe, width, wrap
from analyzer.report.messages import N_, Translate, translator

_BAR = 24
_NAME = 19
_STATE_COLOR = {"failed": (1, 31), "degraded": (1, 33), "healthy": (1, 32), "unknown": (1, 36)}

#: Lines that stand for memory lying on the card or planned for it, in the order of the picture; totals stand apart.
_PLAN = ("weights", "draft_weights", "kv_cache", "state_cache", "activation_peak", "non_torch", "cuda_graphs_reserved")
_CARD = ("cuda_graphs", "compute_buffers", "process", "torch_allocated", "reserved_unallocated", "process_non_torch", "other_processes")
_REST = ("free", "unaccounted")
_INSIDE = frozenset({"torch_allocated", "reserved_unallocated", "process_non_torch"})


def text(report: Report, language: str, *, width: int, color: bool, url: str | None) -> str:
    """The report as plain text of at most ``width`` columns."""
    return _Text(report, language, width, color, url).render()


def ledgers(report: Report, language: str, *, width: int) -> str:
    """Only the ledgers of that text; empty where there is none."""
    return _Text(report, language, width, color=False, url=None).ledgers()


class _Text:
    def __init__(self, report: Report, language: str, columns: int, color: bool, url: str | None) -> None:
        self.report = report
        self.language = language
        self.columns = max(columns, 40)
        self.paint = Paint(color)
        self.url = url
        self._: Translate = translator(language)
        self.lines: list[str] = []

    def render(self) -> str:
        self._head()
        for ledger, alike in common.shown_ledgers(self.report):
            self._ledger(ledger, alike)
        self._dump()
        root = self.report.root
        if root is not None:
            self._explanation(root)
            self._timeline()
            self._fixes(root)
            self._not_this(root)
            self._proof(root)
        self._others(root)
        if root is not None:
            self._needs(root)
        return "\n".join(self.lines).rstrip() + "\n"

    def ledgers(self) -> str:
        for ledger, alike in common.shown_ledgers(self.report):
            self._ledger(ledger, alike)
        return "\n".join(self.lines).strip("\n")

    def _add(self, *lines: str) -> None:
        """Lines whose input parts went through ``safe`` before colour was put on."""
        self.lines += lines

    def _wrapped(self, content: str, indent: str = "", hanging: str | None = None) -> None:
        self._add(*wrap(safe(content), self.columns, indent, hanging))

    def _title(self, content: str) -> None:
        self._add("", self.paint(content, 1))

    def _head(self) -> None:
        outcome = self.report.outcome
        for line in wrap(safe(common.verdict(self.report, self.language, self._)), self.columns):
            self._add(self.paint(line, *_STATE_COLOR[outcome.state.value]))
        if outcome.cause is not None:
            self._add(outcome.cause)
        elif self.report.fingerprint is not None:
            self._wrapped(self._(messages.FINGERPRINT).format(fingerprint=self.report.fingerprint))
        self._wrapped(common.engine_line(self.report, self._, self.url))

    # --- the picture ---------------------------------------------------------------------------------------------------------------

    def _ledger(self, ledger: Ledger, alike: list[int]) -> None:
        _ = self._
        total, budget = ledger.line("total"), ledger.line("budget")
        scale = max([line.bytes for line in ledger.lines if line.bytes > 0], default=0)
        shown = [line for group in (_PLAN, ("budget",), _CARD, _REST) for name in group if (line := ledger.line(name)) is not None]
        if not shown and total is None:
            return
        head = pad(common.heading(ledger, self.report, _) + " ", 2 + _NAME)
        if total is not None:
            head += pad(human(total.bytes), 10 + _BAR) + self._basis(total)
        self._add("", self.paint(cut(head.rstrip(), self.columns), 1))
        self._add(*(self._budget(line) if line is budget else self._line(line, scale) for line in shown))
        if alike:
            others = ", ".join(str(index) for index in alike if index >= 0)
            self._add("  " + _(N_("GPU {indices}: the same within 0.05 GiB")).format(indices=others))

    def _dump(self) -> None:
        """The cards and processes of a dump that came alone."""
        for table in tables(self.report, self._):
            self._title(table.title)
            cells = [tuple(safe(cell) for cell in row) for row in (table.columns, *table.rows)]
            widths = [max(width(row[place]) for row in cells) for place in range(len(table.columns))]
            first_number = len(widths) - table.numbers
            kept = [place for place in range(len(widths)) if place < 2 or any(row[place] for row in cells[1:])]
            for row in cells:
                parts = []
                for place in kept:
                    gap = " " * (widths[place] - width(row[place]))
                    parts.append(gap + row[place] if place >= first_number else row[place] + gap)
                self._add(cut("  " + "  ".join(parts).rstrip(), self.columns))

    def _line(self, line: LedgerLine, scale: int) -> str:
        indent = "    " if line.name in _INSIDE else "  "
        label = pad(indent + self._(messages.LINES[line.name]), 2 + _NAME)
        amount = f"{gib(line.bytes):7.2f}"
        return cut(f"{label}{amount}  {pad(bar(line.bytes, scale, _BAR), _BAR)} {self._basis(line)}".rstrip(), self.columns)

    def _budget(self, line: LedgerLine) -> str:
        shares = [fact.value for fact in self.report.facts if fact.name == "budget.utilization"]
        share = f" {shares[-1]}" if shares else ""
        label = f"── {self._(messages.LINES['budget'])}{share} "
        label = "  " + label + "─" * max(0, _NAME - 1 - width(label)) + " "
        return cut(f"{label}{gib(line.bytes):7.2f}  {' ' * _BAR} {self._basis(line)}".rstrip(), self.columns)

    def _basis(self, line: LedgerLine) -> str:
        basis = self._(messages.BASIS[line.basis.value])
        if line.basis is Basis.MEASURED and line.source is not None:
            return f"{basis}  {common.place(line.source, self.report, self._)}"
        return f"{basis}  {common.formula(line.formula, self._)}" if line.formula else basis

    # --- the words -----------------------------------------------------------------------------------------------------------------

    def _explanation(self, root: Finding) -> None:
        self._add("")
        self._wrapped(root.explanation.get(self.language))

    def _timeline(self) -> None:
        """For a server that came up: where its start spent the time."""
        steps = common.timeline(self.report, self._)
        if steps and self.report.outcome.state in (State.HEALTHY, State.DEGRADED):
            self._add("")
            self._wrapped(self._(N_("Start-up: {steps}")).format(steps=" · ".join(steps)), "", "  ")

    def _fixes(self, root: Finding) -> None:
        if not root.fixes:
            self._window(root)
            return
        self._title(self._(N_("What to change")))
        for number, fix in enumerate(root.fixes, 1):
            title = fix.title.get(self.language) + common.valid_in(fix, self.report, self._)
            first, *rest = wrap(safe(title), self.columns, "     ")
            self._add(self.paint(f"  {number}  ", 1) + first.lstrip(), *rest)
            note = " ".join([*common.to_do(fix, self.language, self._), fix.why.get(self.language)])
            if fix.cost is not None:
                note += " " + self._(N_("Cost:")) + " " + fix.cost.get(self.language)
            if not fix.verified:
                note += " " + self._(N_("(not verified against this log)"))
            self._wrapped(note, "     ")
        self._window(root)
        if self.report.command:
            self._add("", self._(N_("Your command, changed:")))
            for line in self.report.command.splitlines():
                self._add("  " + safe(line))

    def _window(self, root: Finding) -> None:
        if root.window is not None:
            name = "" if root.window.flag in root.window.text.en else f"{root.window.flag}: "
            self._wrapped(name + root.window.text.get(self.language), "  ", "  ")

    def _not_this(self, root: Finding) -> None:
        if not root.not_this:
            return
        self._title(self._(N_("Not this")))
        for item in root.not_this:
            self._wrapped(f"✗ {item.advice.get(self.language)}: {item.why.get(self.language)}", "  ", "    ")

    def _proof(self, root: Finding) -> None:
        if not root.evidence:
            return
        self._title(self._(N_("Proof")))
        for source in root.evidence:
            where = f"{source.input}:{source.line}"
            # The message tells; what the engine puts before it is in the file.
            self._add(cut(f"  {where}  {safe(parse(source.text, source.line).body)}".rstrip(), self.columns * 2))

    def _others(self, root: Finding | None) -> None:
        _ = self._
        rest = [finding for finding in self.report.findings if finding is not root]
        after = [f for f in rest if f.severity is Severity.ERROR]
        noted = [f for f in rest if f.severity is not Severity.ERROR]
        if after:
            self._title(_(N_("What followed")))
            for finding in after:
                self._wrapped(f"{finding.cause}: {finding.title.get(self.language)}", "  ", "    ")
        if noted:
            self._title(_(N_("Also seen")))
            for finding in noted:
                self._wrapped(f"{finding.cause}: {finding.title.get(self.language)}", "  ", "    ")
                if finding.severity is Severity.WARNING:
                    self._wrapped(finding.explanation.get(self.language), "    ")

    def _needs(self, root: Finding) -> None:
        if not root.needs:
            return
        self._title(self._(N_("To be surer")))
        for need in root.needs:
            self._wrapped(f"- {need.get(self.language)}", "  ", "    ")
        if self.url:
            self._add(f"  curl -T FILE {self.url}")
