"""Fixes of what was typed: the right flag, the length that the model has, a tensor parallel size that divides, tokens that fit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from analyzer.engines.computed import Computed
from analyzer.engines.vllm import flags
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.engines.vllm.flags import Kind
from analyzer.model import Action, Change, FlagChange, Text, Value

if TYPE_CHECKING:
    from analyzer.engines.vllm import lint

LENGTH, TENSOR = "--max-model-len", "--tensor-parallel-size"


def use_right_flag(plan: Plan) -> Computed | None:
    """What to write in this version for the flags that the parser refused; those that nothing replaces are removed with it."""
    issues = _issues(plan)
    right = [issue for issue in issues if issue.instead is not None]
    if not right:
        return None
    changes: list[Change] = []
    for issue in issues:
        changes += _changes(plan, issue)
    note = Text(" ".join(issue.text.en for issue in right), "".join(issue.text.zh for issue in right))
    values: dict[str, str | Text] = {
        "flag": ", ".join(issue.written for issue in right),
        "right": ", ".join(issue.instead for issue in right if issue.instead is not None),
        "note": note,
    }
    return Computed(tuple(changes), values, verified=all(issue.fate is not None and issue.fate.kind is not Kind.UNKNOWN for issue in right))


def drop_flag(plan: Plan) -> Computed | None:
    """The refused flags that this version has nothing for."""
    gone = [issue for issue in _issues(plan) if issue.instead is None]
    if not gone:
        return None
    note = Text(" ".join(issue.text.en for issue in gone), "".join(issue.text.zh for issue in gone))
    values: dict[str, str | Text] = {"flag": ", ".join(issue.written for issue in gone), "note": note}
    return Computed(tuple(FlagChange(issue.written, _given(plan, issue.written), None) for issue in gone), values, verified=True)


def refused_though_known(plan: Plan) -> list[str]:
    """The refused flags, where every possible version has every one of them; else none.

    Then another installation answered than the one that the text is about, or flag and value came as one argument (vllm#8273).
    """
    refused = _refused(plan) if plan.case.cause == "args.unknown_flag" else []
    return refused if all(flags.exists(flag, plan.where) for flag in refused) else []


def _refused(plan: Plan) -> list[str]:
    """The flags in the failing line's group ``flags``, as typed, once each."""
    event = plan.case.event
    typed = plan.view.groups(event).get("flags", "") if event is not None else ""
    return list(dict.fromkeys(word.partition("=")[0].rstrip(",") for word in typed.split() if re.match(r"--?[A-Za-z]", word)))


def _issues(plan: Plan) -> list[lint.Issue]:
    """What the check says of each flag in the failing line's group ``flags``; flags that the table has in this version are left out."""
    from analyzer.engines.vllm import lint  # reads commands, which few failures are about: not loaded for the others

    written = _refused(plan)
    others = [flag for flag in plan.view.settings if flag not in written]
    found = []
    for word in written:
        issue = lint.of_flag(word, plan.where, others)
        if issue is None and flags.resolve(plan.where):  # the possible versions differ: the newest one answers
            issue = lint.of_flag(word, flags.resolve(plan.where)[-1], others)
        if issue is not None and issue.fatal:
            found.append(issue)
    return found


def _changes(plan: Plan, issue: lint.Issue) -> list[Change]:
    """Remove the old option; write the new one where its value is known, else say that it needs one."""
    from analyzer.engines.vllm import lint

    given = _given(plan, issue.written)
    options = [lint.Option(issue.written, issue.written, given)]
    found: list[Change] = [
        FlagChange(flag, given if value is None else None, value) for flag, value in lint.changes([issue], options, plan.where).items()
    ]
    if issue.instead is not None and len(found) == 1:
        found.append(Action(Text(f"write {issue.instead} with the value that it takes", f"改用 {issue.instead}，并按它的格式给出取值")))
    return found


def _given(plan: Plan, written: str) -> Value | None:
    """The value that stands beside the flag in the command, else in the failing line."""
    stated = plan.view.setting(flags.canonical(written))
    if stated is not None:
        return stated
    event = plan.case.event
    typed = plan.view.groups(event).get("flags", "") if event is not None else ""
    following = re.search(rf"(?<!\S){re.escape(written)}[= ](?P<value>[^\s-]\S*)", typed)
    return following["value"] if following else None


def max_model_len_of_model(plan: Plan) -> Computed | None:
    """The length that the model's config gives: from the refusal, the override's warning, or config.json."""
    before = plan.max_len
    derived = plan.view.number("model.derived_max_len")
    if derived is None:
        sign = plan.view.attempt.signs.get("vllm.sign.max_len_override")
        printed = sign.values("derived") if sign is not None else []
        stated = (plan.view.model or {}).get("max_position_embeddings")
        derived = int(printed[-1]) if printed else stated if isinstance(stated, int) else None
        if before is None and sign is not None and sign.values("asked"):
            before = int(sign.values("asked")[-1])
    if before is None or derived is None or not 0 < derived < before:
        return None
    to = int(derived)
    return Computed((FlagChange(LENGTH, before, to),), {"flag": LENGTH, "before": str(before), "to": str(to)}, verified=True)


def tp_that_divides(plan: Plan) -> Computed | None:
    """The largest tensor parallel size below the given one that divides the heads; a power of two where one divides as well."""
    heads = plan.view.number("model.attention_heads")
    before = plan.view.number("parallel.tp") or plan.whole(TENSOR)
    if not heads or not before:
        return None
    divisors = [size for size in range(1, int(before)) if int(heads) % size == 0]
    if not divisors:
        return None
    powers = [size for size in divisors if size & (size - 1) == 0]
    # 5 or 7 divide some models' heads but seldom their KV heads and widths; twice the ranks are worth the try, less are not.
    to = powers[-1] if powers and 2 * powers[-1] > divisors[-1] else divisors[-1]
    values: dict[str, str | Text] = {"flag": TENSOR, "before": str(int(before)), "to": str(to), "heads": str(int(heads))}
    return Computed((FlagChange(TENSOR, int(before), to),), values, verified=True)


def max_tokens_that_fit(plan: Plan) -> Computed | None:
    """What is left of the context after the prompt."""
    length, prompt = plan.view.number("model.max_len"), plan.view.number("request.input_tokens")
    if length is None or prompt is None or prompt >= length:
        return None
    to = int(length) - int(prompt)
    action = Action(Text(f"set max_tokens to at most {to} in the request", f"请求中的 max_tokens 最多设为 {to}"))
    values: dict[str, str | Text] = {"to": str(to), "max_len": str(int(length)), "input_tokens": str(int(prompt))}
    return Computed((action,), values, verified=True)
