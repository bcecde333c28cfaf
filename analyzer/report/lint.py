"""The check of a command's options, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from analyzer.engines.vllm.lint import Issue
from analyzer.report.layout import wrap

#: Heads of the sections and the closing line; the options' own sentences come from the check.
_REFUSED = {"en": "Refused", "zh": "会被拒绝"}
_NOTED = {"en": "Worth knowing", "zh": "值得注意"}
_FINE = {"en": "vLLM {version} takes all {count} options.", "zh": "vLLM {version} 接受全部 {count} 个参数。"}
_COUNT = {"en": "vLLM {version}: {count} options, {refused} refused.", "zh": "vLLM {version}：共 {count} 个参数，{refused} 处会被拒绝。"}
_MISSING = {"en": "Still to be added, with values of their own: {names}.", "zh": "还需按各自的格式补上：{names}。"}
_COMMAND = {"en": "The command for this version:", "zh": "适用于该版本的命令："}


def as_json(issues: Sequence[Issue], version: str, command: str | None, language: str) -> str:
    """``{"version", "ok", "issues": [{"about", "option", "fatal", "instead", "text"}], "command"}``, one object on lines."""
    listed = []
    for issue in issues:
        words = issue.text.get(language)
        listed.append({"about": str(issue.about), "option": issue.written, "fatal": issue.fatal, "instead": issue.instead, "text": words})
    ok = not any(issue.fatal for issue in issues)
    return json.dumps({"version": version, "ok": ok, "issues": listed, "command": command}, ensure_ascii=False, indent=2) + "\n"


def as_text(issues: Sequence[Issue], version: str, count: int, command: str | None, language: str, width: int) -> str:
    """Sections of what is refused and what is worth knowing, and the corrected command where it differs."""
    refused = [issue for issue in issues if issue.fatal]
    head = _COUNT if refused else _FINE
    lines = [head[language].format(version=version, count=count, refused=len(refused))]
    for title, found in ((_REFUSED, refused), (_NOTED, [issue for issue in issues if not issue.fatal])):
        if found:
            lines += ["", title[language]]
            for issue in found:
                arrow = f" → {issue.instead}" if issue.instead else ""
                lines += wrap(f"{issue.written}{arrow}: {issue.text.get(language)}", width, "  ", "    ")
    if command is not None:
        lines += ["", _COMMAND[language], *(f"  {line}" for line in command.splitlines())]
        missing = [issue.instead for issue in refused if issue.instead is not None and issue.instead not in command]
        if missing:
            lines += wrap(_MISSING[language].format(names=", ".join(missing)), width, "  ", "  ")
    return "\n".join(lines) + "\n"
