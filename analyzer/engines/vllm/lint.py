"""A command's options against one version: what becomes of each flag, values that it refuses, combinations that it forbids.

Only what the parser or the start checks themselves refuse is ``fatal``; everything else is worth a word. A flag whose fate the possible
versions do not share is not judged.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analyzer.engines.vllm import flags
from analyzer.engines.vllm.eras import Where
from analyzer.engines.vllm.flag_table import accepted_by
from analyzer.engines.vllm.flags import Fate, Kind
from analyzer.model import Text, Value
from analyzer.model.versions import base
from analyzer.readers.launch import vllm_flags


class About(StrEnum):
    """What an issue is about."""

    FLAG = "flag"  # the option is not accepted as written
    VALUE = "value"  # its value is refused
    COMBINATION = "combination"  # it goes against another one
    VARIABLE = "variable"  # an environment variable that is not read
    NOTE = "note"  # accepted, and worth knowing


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command, as it was typed. ``flag`` is the long one that the readers take it for."""

    written: str
    flag: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing about one option. ``instead``: what to write, where that is one option; ``fatal``: the start ends at it."""

    about: About
    written: str
    text: Text
    fatal: bool
    instead: str | None = None
    fate: Fate | None = None


#: Misspelt beyond this likeness (difflib) an option is a guess and not a suggestion.
LIKENESS = 0.84
#: Whole numbers that have to be one or more.
POSITIVE = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--max-num-seqs", "--max-num-batched-tokens")
#: Options that may stand with or without a value, and those that take a list.
MAY_STAND_ALONE = frozenset({"-O", "--hf-token", "--api-key", "--compilation-config", "--optimization-level", "--middleware"})
SEVERAL = frozenset(f"--{name}" for name in vllm_flags.SEVERAL)
UTILIZATION, LENGTH, TOKENS, SEQUENCES = (
    "--gpu-memory-utilization", "--max-model-len", "--max-num-batched-tokens", "--max-num-seqs",
)  # fmt: skip


def options_of(text: str) -> list[Option] | None:
    """The options of the last launch in ``text``, as typed; None where no launch of vLLM stands there."""
    from analyzer.readers.launch.find import invocations

    found = [launch for launch in invocations(text) if launch.engine in (None, "vllm")]
    if not found:
        return None
    return [
        Option(argument.words[0].value.partition("=")[0], argument.flag, argument.value)
        for argument in found[-1].arguments
        if not argument.positional and not argument.computed and argument.words and argument.words[0].value.startswith("-")
    ]


def variables_of(text: str) -> dict[str, str]:
    """The environment variables that the last launch in ``text`` sets."""
    from analyzer.readers.launch.find import invocations

    found = [launch for launch in invocations(text) if launch.engine in (None, "vllm")]
    return {variable.name: variable.value for variable in found[-1].environment} if found else {}


def check(options: Sequence[Option], variables: Mapping[str, str], where: Where) -> list[Issue]:
    """Everything worth saying about the options and variables in ``where``, in the order of the command, combinations last."""
    found = [issue for option in options for issue in _option(option, options, where)]
    found += [issue for name in variables if (issue := _variable(name, where)) is not None]
    return [*found, *_combinations(options, where)]


def changes(issues: Sequence[Issue], options: Sequence[Option], where: Where) -> dict[str, Value | None]:
    """Long flag -> new value (None: removed) that answer the fatal issues of flags, as far as no value has to be guessed."""
    given = {option.written: option.value for option in options}
    newest = flags.resolve(where)[-1:]
    found: dict[str, Value | None] = {}
    for issue in issues:
        if issue.about is not About.FLAG or not issue.fatal:
            continue
        found[issue.written] = None
        if issue.instead is None or issue.fate is None or not newest:
            continue
        takes, value = flags.takes_value(issue.instead, newest[0]), given.get(issue.written)
        if takes is False:
            found[issue.instead] = True
        elif issue.fate.kind in (Kind.RENAMED, Kind.UNKNOWN, Kind.OK) and value is not None and not isinstance(value, bool):
            found[issue.instead] = value
    return found


def corrected(text: str, issues: Sequence[Issue], options: Sequence[Option], where: Where) -> str | None:
    """The command without refused flags and with what replaces them; None where that changes nothing."""
    from analyzer.readers.launch.rewrite import corrected as rewritten

    by_written = {option.written: option.flag for option in options}
    wanted = {by_written.get(flag, flag): value for flag, value in changes(issues, options, where).items()}
    written = rewritten(text, wanted) if wanted else text
    return written.strip("\n") if written != text else None


def of_flag(written: str, where: Where, others: Iterable[str] = ()) -> Issue | None:
    """What the parser makes of the option ``written``; None where it takes it as it is, or the versions differ. ``others``: the rest."""
    fate = flags.fate(written, where)
    if not fate.sure and fate.kind is not Kind.NEVER:
        return None
    note = fate.note or Text("", "")
    if fate.kind is Kind.OK:
        return _deprecated(written, fate, note)
    if fate.kind is Kind.ABBREVIATION:
        text = Text(f"{written} is read as {fate.instead}, which it begins.", f"{written} 会被当作 {fate.instead}（前缀缩写）。")
        return Issue(About.NOTE, written, text, False, fate.instead, fate)
    given = {flags.canonical(other) for other in others}
    instead = fate.instead if fate.instead not in given else None
    if fate.kind is Kind.UNKNOWN:
        instead = _misspelt(written, where)
    text = _why(written, fate, where, instead, already=fate.instead if fate.instead in given else None)
    return Issue(About.FLAG, written, _joined(text, note), True, instead, fate)


def _why(written: str, fate: Fate, where: Where, instead: str | None, already: str | None) -> Text:
    version = where if isinstance(where, str) else None
    here = Text(f"{version}" if version else "this version", f"{version}" if version else "该版本")
    if fate.kind is Kind.NEVER:
        first = Text(f"No release of vLLM has {written}.", f"vLLM 的任何版本都没有 {written}。")
    elif fate.kind is Kind.AMBIGUOUS:
        several = ", ".join(fate.candidates[:6])
        first = Text(f"{written} begins several options: {several}.", f"{written} 是多个参数的前缀：{several}。")
    elif fate.kind is Kind.NOT_YET:
        en = f"{written} came with {fate.since}; {here.en} does not have it."
        first = Text(en, f"{written} 从 {fate.since} 开始提供，{here.zh} 还没有。")
    elif fate.kind is Kind.RENAMED:
        first = Text(f"Renamed: {written} was last accepted by {fate.until}.", f"已改名：{written} 最后可用的版本是 {fate.until}。")
    elif fate.kind is Kind.REMOVED:
        first = _removed(written, fate, version)
    else:
        first = Text(f"{here.en} has no option {written}.", f"{here.zh} 没有 {written} 这个参数。")
        if instead is not None:
            return _joined(first, Text(f"The nearest one is {instead}.", f"最接近的是 {instead}。"))
    if already is not None:
        return _joined(first, Text(f"{already}, which takes its place, is already there.", f"替代它的 {already} 已经写了。"))
    return first


def _removed(written: str, fate: Fate, version: str | None) -> Text:
    newer = version is not None and fate.until is not None and base(version) < base(fate.until)
    if newer:  # taken out and put back
        return Text(f"{version} does not accept {written}; other releases do.", f"{version} 不接受 {written}（其他版本接受）。")
    return Text(f"Removed: {written} was last accepted by {fate.until}.", f"已移除：{written} 最后可用的版本是 {fate.until}。")


def _joined(first: Text, second: Text) -> Text:
    return Text(f"{first.en} {second.en}".strip(), f"{first.zh}{second.zh}".strip())


def _misspelt(written: str, where: Where) -> str | None:
    """The one option of the newest possible version that the unknown one is most like."""
    releases = flags.resolve(where)
    if not releases or not written.startswith("--"):
        return None
    near = difflib.get_close_matches(flags.canonical(written), accepted_by(releases[-1]).long, n=1, cutoff=LIKENESS)
    return near[0] if near else None


def _deprecated(written: str, fate: Fate, note: Text) -> Issue | None:
    if fate.deprecated is None:
        return None
    first = Text(f"{written} warns from {fate.deprecated} on that it will go.", f"{written} 从 {fate.deprecated} 起提示即将废弃。")
    return Issue(About.NOTE, written, _joined(first, note), False, fate.instead, fate)


def _option(option: Option, options: Sequence[Option], where: Where) -> list[Issue]:
    short = not option.written.startswith("--")
    if short and len(option.written) > 4 and flags.fate("-" + option.written, where).kind.accepted:
        return [_single_dash(option, where)]
    issue = of_flag(option.written, where, (other.written for other in options if other is not option))
    if issue is not None and issue.fatal:
        return [issue]
    found = [issue] if issue is not None else []
    refused = _value(option, where)
    return [*found, refused] if refused is not None else found


def _single_dash(option: Option, where: Where) -> Issue:
    """``-max-model-len``: long options have two dashes."""
    right = "-" + option.written
    text = Text(f"{option.written} has one dash: write {right}.", f"{option.written} 只有一个短横线，应写成 {right}。")
    return Issue(About.FLAG, option.written, text, True, right, flags.fate(right, where))


def _value(option: Option, where: Where) -> Issue | None:
    """A value that the parser or the configuration refuses. What a shell or a template has still to put in is not known."""
    value, flag = option.value, option.flag
    if isinstance(value, str) and ("$" in value or "{{" in value):
        return None
    accepted = flags.choices(flag, where) if flag not in SEVERAL else None
    # An empty list is a registry that is filled when the server starts.
    if accepted and not isinstance(value, bool) and str(value) not in {str(choice) for choice in accepted}:
        shown = ", ".join(str(choice) for choice in accepted if choice is not None)
        return _refused(option, f"takes one of {shown}", f"只接受 {shown}")
    if isinstance(value, bool):
        if value and flags.canonical(flag) not in MAY_STAND_ALONE and flags.takes_value(flag, where):
            return _refused(option, "needs a value", "后面需要一个值", missing=True)
        return None
    if flag == UTILIZATION and not (isinstance(value, (int, float)) and 0 < value <= 1):
        return _refused(option, "is a share of the card above 0 and at most 1", "是占整卡的比例，取值在 0（不含）到 1 之间")
    if flag in POSITIVE and not (isinstance(value, int) and value >= 1):
        return _refused(option, "is a whole number from 1 on", "必须是不小于 1 的整数")
    return None


def _refused(option: Option, en: str, zh: str, *, missing: bool = False) -> Issue:
    given = "" if missing else f" ({option.value})"
    zh_given = "" if missing else f"（现为 {option.value}）"
    return Issue(About.VALUE, option.written, Text(f"{option.written} {en}{given}.", f"{option.written} {zh}{zh_given}。"), True)


def _variable(name: str, where: Where) -> Issue | None:
    """A VLLM_ variable that this version does not read: ignored without a word, so not fatal."""
    if not name.startswith("VLLM_"):
        return None
    fate = flags.variable_fate(name, where)
    if not fate.sure or fate.kind is Kind.OK or (fate.kind is Kind.UNKNOWN and flags.known(name, where) is not False):
        return None
    if fate.kind is Kind.NOT_YET:
        text = Text(f"{name} is read from {fate.since} on; before, it is ignored.", f"{name} 从 {fate.since} 起才读取，此前会被忽略。")
    elif fate.kind is Kind.REMOVED:
        text = Text(f"{name} was last read by {fate.until}; it is ignored now.", f"{name} 最后被读取的版本是 {fate.until}，现在会被忽略。")
    else:
        text = Text(f"vLLM does not read {name}; it is ignored.", f"vLLM 不读取 {name}，会被忽略。")
    return Issue(About.VARIABLE, name, _joined(text, fate.note or Text("", "")), False, fate.instead, fate)


def _combinations(options: Sequence[Option], where: Where) -> list[Issue]:
    """What the start checks refuse of options that are right each by itself (``vllm/config``: SchedulerConfig, all versions)."""
    values = {option.flag: option for option in options}
    found: list[Issue] = []
    tokens, sequences, length = (_whole(values.get(flag)) for flag in (TOKENS, SEQUENCES, LENGTH))
    if tokens is not None and sequences is not None and tokens < sequences:
        text = Text(
            f"{TOKENS} {tokens} is below {SEQUENCES} {sequences}: refused.",
            f"{TOKENS} {tokens} 小于 {SEQUENCES} {sequences}，会被拒绝。",
        )
        found.append(Issue(About.COMBINATION, TOKENS, text, True))
    chunked = values.get("--enable-chunked-prefill")
    off = chunked is not None and chunked.value is False
    if off and tokens is not None and length is not None and tokens < length:
        text = Text(
            f"Without chunked prefill {TOKENS} ({tokens}) must hold a whole prompt of {LENGTH} ({length}).",
            f"关闭 chunked prefill 时，{TOKENS}（{tokens}）必须不小于 {LENGTH}（{length}）。",
        )
        found.append(Issue(About.COMBINATION, TOKENS, text, True))
    seen: dict[str, Option] = {}
    for option in options:
        first = seen.setdefault(option.flag, option)
        if first is not option and first.value != option.value and flags.takes_value(option.flag, where):
            en = f"{option.flag} is given twice; the last one counts ({option.value})."
            text = Text(en, f"{option.flag} 写了两次，以最后一个为准（{option.value}）。")
            found.append(Issue(About.NOTE, option.written, text, False))
    return found


def _whole(option: Option | None) -> int | None:
    return option.value if option is not None and isinstance(option.value, int) and not isinstance(option.value, bool) else None
