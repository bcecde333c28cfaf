"""A report → Slack's Block Kit, within its limits: verdict, ledger, two fixes, the corrected command, what to send, buttons."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyzer.intake.lines import parse
from analyzer.report import common
from analyzer.report.layout import cut, safe
from analyzer.report.messages import translator
from analyzer.report.text import ledgers
from analyzer.slack import words

if TYPE_CHECKING:
    from analyzer.model import Finding, Report, Text

Block = dict[str, Any]

#: Block Kit's limits, in characters, and blocks of a message.
SECTION, CONTEXT, BUTTON, URL, ALT, BLOCKS = 3000, 2000, 75, 3000, 2000, 50
#: A code block is rich text, for which Slack states no limit of its own: that of a section.
CODE = 2900
_COLUMNS = 72
_FIXES, _NEEDS, _PROOF_COLUMNS = 2, 3, 240
#: What a bar and a rule are drawn with: nothing to be read out.
_BARS = re.compile(r"[▏▎▍▌▋▊▉█─]+")
_LIGHTS = {"failed": ":red_circle:", "degraded": ":large_yellow_circle:", "healthy": ":large_green_circle:", "unknown": ":white_circle:"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A message: its blocks, and the text that notifications and readers of screens get."""

    text: str
    blocks: list[Block]


def escape(text: str) -> str:
    """``text`` without what Slack takes for links, mentions and broadcasts."""
    return safe(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def said(text: Text, language: str) -> Answer:
    """One sentence of the bot's own."""
    return sentence(text.get(language))


def sentence(text: str) -> Answer:
    """One sentence in Slack's own markup."""
    return Answer(text, [_section(text)])


def answer(
    report: Report,
    language: str,
    *,
    url: str | None = None,
    picture: str | None = None,
    notes: Sequence[str] = (),
) -> Answer:
    """The reply. ``url``: of the full report; ``picture``: Slack's id of the uploaded ledger; a code block where there is none.

    ``notes``: what could not be read, in plain text.
    """
    _ = translator(language)
    verdict = escape(common.verdict(report, language, _))
    cause = f"\n`{escape(report.outcome.cause)}`" if report.outcome.cause else ""
    blocks = [_section(f"{_LIGHTS[report.outcome.state.value]} *{_one_line(verdict)}*{cause}")]
    engine = escape(common.engine_line(report, _, None))
    if engine:
        blocks.append(_context(engine))
    root = report.root
    if root is not None:
        blocks.append(_section(escape(root.explanation.get(language))))
        blocks += _proof(root)
    blocks += _ledger(report, language, picture)
    if root is not None:
        blocks += _fixes(root, report, language)
        blocks += _needs(root, language)
    if notes:
        blocks.append(_context(":warning: " + escape(" ".join(notes))))
    blocks.append(_buttons(language, url))
    text = verdict + (f" ({escape(report.outcome.cause)})" if report.outcome.cause else "")
    return Answer(text[:SECTION], blocks[:BLOCKS])


def _section(text: str) -> Block:
    return {"type": "section", "text": {"type": "mrkdwn", "text": _within(text, SECTION), "verbatim": True}}


def _context(text: str) -> Block:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": _within(text, CONTEXT), "verbatim": True}]}


def _within(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` characters, not cut inside of an escape; never empty, which Slack refuses."""
    text = text if text.strip() else "–"
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    start = kept.rfind("&")
    if start > len(kept) - 5 and ";" not in kept[start:]:
        kept = kept[:start]
    return kept + "…"


def _one_line(text: str) -> str:
    """Bold text ends with its line, and an asterisk in it would end it too."""
    return " ".join(text.split()).replace("*", "∗")


def code(text: str) -> Block:
    """``text`` as a code block that nothing in it can end: rich text holds it as it is."""
    content = safe(text)[:CODE] or " "
    element = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": content}]}
    return {"type": "rich_text", "elements": [element]}


def _proof(root: Finding) -> list[Block]:
    if not root.evidence:
        return []
    source = root.evidence[0]
    # The message tells; what the engine puts before it is in the report.
    return [code(cut(f"{source.input}:{source.line}  {parse(source.text, source.line).body}", _PROOF_COLUMNS))]


def _ledger(report: Report, language: str, picture: str | None) -> list[Block]:
    text = ledgers(report, language, width=_COLUMNS)
    if not text:
        return []
    if picture is None:
        return [code(text)]
    alt = f"{words.PICTURE_ALT.get(language)}: " + " ".join(_BARS.sub(" ", text).split())
    return [{"type": "image", "slack_file": {"id": picture}, "alt_text": safe(alt)[:ALT]}]


def _fixes(root: Finding, report: Report, language: str) -> list[Block]:
    if not root.fixes:
        return _window(root, language)
    _ = translator(language)
    rows = [f"*{words.FIXES.get(language)}*"]
    for number, fix in enumerate(root.fixes[:_FIXES], 1):
        title = escape(fix.title.get(language) + common.valid_in(fix, report, _))
        note = escape(fix.why.get(language))
        if fix.cost is not None:
            note += f" {words.COST.get(language)} {escape(fix.cost.get(language))}"
        if not fix.verified:
            note += f" {words.UNVERIFIED.get(language)}"
        rows.append(f"{number}. *{_one_line(title)}*\n{note}")
    left = len(root.fixes) - _FIXES
    if left > 0:
        rows.append(words.MORE_FIXES.get(language).format(count=left))
    blocks = [_section("\n".join(rows)), *_window(root, language)]
    if report.command:
        if len(report.command) <= CODE:
            blocks += [_section(words.COMMAND.get(language)), code(report.command)]
        else:  # a command that is cut is a wrong one
            blocks.append(_section(words.COMMAND_LONG.get(language)))
    return blocks


def _window(root: Finding, language: str) -> list[Block]:
    if root.window is None:
        return []
    name = "" if root.window.flag in root.window.text.en else f"{root.window.flag}: "
    return [_context(escape(name + root.window.text.get(language)))]


def _needs(root: Finding, language: str) -> list[Block]:
    if not root.needs:
        return []
    rows = [f"*{words.NEEDS.get(language)}*", *(f"• {escape(need.get(language))}" for need in root.needs[:_NEEDS])]
    return [_section("\n".join(rows))]


def _buttons(language: str, url: str | None) -> Block:
    """The full report is a link where the service has an address, else it is put into the thread."""
    full: Block = {"type": "button", "action_id": "report", "text": _label(words.FULL_REPORT, language), "style": "primary"}
    if url and len(url) <= URL:
        full["url"] = url
    other = "en" if language == "zh" else "zh"
    confirm = {
        "title": _label(words.DELETE_TITLE, language),
        "text": {"type": "plain_text", "text": words.DELETE_TEXT.get(language)},
        "confirm": _label(words.DELETE, language),
        "deny": _label(words.CANCEL, language),
        "style": "danger",
    }
    return {
        "type": "actions",
        "block_id": "about",
        "elements": [
            full,
            {"type": "button", "action_id": "language", "value": other, "text": _label(words.OTHER_LANGUAGE, language)},
            {"type": "button", "action_id": "helped", "text": _label(words.HELPED, language)},
            {"type": "button", "action_id": "wrong", "text": _label(words.WRONG, language)},
            {"type": "button", "action_id": "delete", "style": "danger", "text": _label(words.DELETE, language), "confirm": confirm},
        ],
    }


def _label(text: Text, language: str) -> Block:
    return {"type": "plain_text", "text": text.get(language)[:BUTTON], "emoji": True}


def form(channel: str, language: str) -> dict[str, Any]:
    """The modal in which a log is pasted; ``channel`` is where the answer goes."""
    entry = {"type": "plain_text_input", "action_id": "log", "multiline": True, "max_length": 3000}
    return {
        "type": "modal",
        "callback_id": "paste",
        "private_metadata": channel,
        "title": _label(words.FORM_TITLE, language),
        "submit": _label(words.FORM_SUBMIT, language),
        "close": _label(words.CANCEL, language),
        "blocks": [
            {
                "type": "input",
                "block_id": "log",
                "element": entry,
                "label": _label(words.FORM_LABEL, language),
                "hint": {"type": "plain_text", "text": words.FORM_HINT.get(language)},
            }
        ],
    }
