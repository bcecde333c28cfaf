"""Shell text → simple commands with words, every one with its place in the text. Quoting is undone, nothing is expanded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: A quoted argument may run over so many characters; an apostrophe in prose has no partner within them.
MAX_QUOTED = 20_000

_GOES_ON = r"[ \t]*(?:\\|(?<=\s)[\^`])[ \t]*\r?\n"
#: The prompt that a shell shows before the rest of a command: ``>`` (where an option follows, else it redirects), ``>>``.
_SHOWN = r"[ \t]*(?:>>[ \t]+|>[ \t]+(?=--?\w))"
_CONTINUED = re.compile(f"{_GOES_ON}(?:{_SHOWN})?")
_SHOWN_AGAIN = re.compile(f"({_GOES_ON}){_SHOWN}")
_FLAG_LINE = re.compile(r"\r?\n(?=[ \t]+--?[A-Za-z])")  # the backslashes were lost on the way: an indented line that begins with an option
_BLANK = re.compile(r"[ \t\r\f\v]+")
_PLAIN = re.compile(r"[^\s'\"\\$`;&|()<>]+")
_OPERATOR = re.compile(r"&&|\|\||[;|()]|&(?!>)")
_REDIRECT = re.compile(r"(?:\d*|&)(?:>>|>&|<<-?|<&|>\||[<>])")
_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>\s]{0,80}>")  # <model>, as documentation writes it
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=")
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its value without quotes, and the place of its text, quotes included."""

    value: str
    start: int
    end: int

    @property
    def assignment(self) -> tuple[str, str] | None:
        """(name, value) of ``NAME=value``."""
        matched = _ASSIGNMENT.match(self.value)
        return (matched[1], self.value[matched.end() :]) if matched else None


@dataclass(slots=True)
class Command:
    """A simple command: its words, redirections left out. ``end`` is behind the last thing that belongs to it, redirections included."""

    words: list[Word] = field(default_factory=list)
    end: int = 0
    comment: str = ""  # what stands behind it on its last line

    @property
    def start(self) -> int:
        """The place of the first word."""
        return self.words[0].start if self.words else self.end


def read(text: str, at: int, stop: int, *, folded: bool = False) -> tuple[list[Command], int]:
    """The simple commands of the logical line that begins at ``at``, and the place behind it (at its line end, or ``stop``).

    ``folded``: a line end is a blank (the text is one YAML string that folds its lines).
    """
    commands: list[Command] = []
    now = Command(end=at)
    while at < stop:
        char = text[at]
        continued = _CONTINUED.match(text, at, stop) if char in " \t\\^`" else None
        if continued:
            at = continued.end()
            continue
        if char in "\r\n":
            lost = _FLAG_LINE.match(text, at, stop) if now.words else None
            if lost:
                at = lost.end()
                continue
            if not folded and char == "\n":
                break
            at += 1
            continue
        blank = _BLANK.match(text, at, stop)
        if blank:
            at = blank.end()
            continue
        if char == "#":
            end = text.find("\n", at, stop)
            end = stop if end < 0 else end
            now.comment = text[at + 1 : end].strip()
            at = end
            continue
        redirect = None if _PLACEHOLDER.match(text, at, stop) else _REDIRECT.match(text, at, stop)
        if redirect:
            at = redirect.end()
            while at < stop and text[at] in " \t":
                at += 1
            if at < stop and text[at] not in "\r\n":
                at = word(text, at, stop).end
            now.end = max(now.end, at)
            continue
        operator = _OPERATOR.match(text, at, stop)
        if operator:
            if now.words:
                commands.append(now)
            at = operator.end()
            now = Command(end=at)
            continue
        found = word(text, at, stop)
        now.words.append(found)
        at = now.end = found.end
    if now.words:
        commands.append(now)
    elif now.comment and commands:
        commands[-1].comment = now.comment
    return commands, at


def without_prompts(command: str) -> str:
    """``command`` as it was typed: without the prompts that a shell showed before the lines on which it goes on."""
    return _SHOWN_AGAIN.sub(r"\1  ", command)


def word(text: str, at: int, stop: int) -> Word:
    """The word that begins at ``at``. A quote without a partner is a plain character."""
    start = at
    parts: list[str] = []
    while at < stop:
        char = text[at]
        plain = _PLAIN.match(text, at, stop)
        if plain:
            parts.append(plain[0])
            at = plain.end()
        elif char in "'\"":
            quoted = _quoted(text, at, stop)
            if quoted is None:
                parts.append(char)
                at += 1
            else:
                parts.append(quoted[0])
                at = quoted[1]
        elif char == "\\":
            if _CONTINUED.match(text, at, stop) or at + 1 >= stop or text[at + 1] in "\r\n":
                break
            parts.append(text[at + 1])
            at += 2
        elif char == "$":
            end = _expansion_end(text, at, stop)
            parts.append(text[at:end])
            at = end
        elif char == "`":
            end = text.find("`", at + 1, min(stop, at + MAX_QUOTED))
            line = text.find("\n", at, stop)
            if end < 0 or 0 <= line < end:
                if parts:
                    break
                end = at
            parts.append(text[at : end + 1])
            at = end + 1
        elif char == "<" and (placeholder := _PLACEHOLDER.match(text, at, stop)):
            parts.append(placeholder[0])
            at = placeholder.end()
        else:
            break
    if at == start:  # an operator character where a word was expected: never stand still
        return Word(text[at], at, at + 1)
    return Word("".join(parts), start, at)


def _quoted(text: str, at: int, stop: int) -> tuple[str, int] | None:
    quote = text[at]
    limit = min(stop, at + MAX_QUOTED)
    if quote == "'":
        end = text.find("'", at + 1, limit)
        if end < 0 or (at > 0 and text[at - 1].isalpha() and "\n" in text[at:end]):
            return None
        return text[at + 1 : end], end + 1
    parts: list[str] = []
    place = at + 1
    while place < limit:
        char = text[place]
        if char == '"':
            return "".join(parts), place + 1
        if char == "\\" and place + 1 < limit:
            following = text[place + 1]
            parts.append("" if following == "\n" else following if following in '"\\$`' else char + following)
            place += 2
        else:
            end = place + 1
            while end < limit and text[end] not in '"\\':
                end += 1
            parts.append(text[place:end])
            place = end
    return None


def _expansion_end(text: str, at: int, stop: int) -> int:
    """The place behind ``$name``, ``${…}`` or ``$(…)``."""
    if at + 1 < stop and text[at + 1] in "({":
        opening, closing = text[at + 1], ")" if text[at + 1] == "(" else "}"
        depth = 0
        for place in range(at + 1, min(stop, at + 200)):
            depth += (text[place] == opening) - (text[place] == closing)
            if depth == 0:
                return place + 1
        return min(stop, at + 2)
    place = at + 1
    while place < stop and (text[place].isalnum() or text[place] == "_"):
        place += 1
    return place


def heredoc(text: str, at: int, line_end: int, stop: int) -> tuple[int, int] | None:
    """Where the body of a here-document begins and ends that the line from ``at`` to ``line_end`` opens; None where it opens none."""
    opened = _HERE.search(text, at, line_end)
    if opened is None:
        return None
    closed = re.compile(rf"^[ \t]*{re.escape(opened[2])}[ \t]*\r?$", re.MULTILINE).search(text, line_end, stop)
    return line_end + 1, closed.start() if closed else stop
