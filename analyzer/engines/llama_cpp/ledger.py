"""llama.cpp's ledger, from the buffers it prints by device (reference/engines.md, section 2); Ollama's too, whose runner prints them.

``total = weights + kv_cache + state_cache + compute_buffers + other_processes + free + unaccounted``. Only what was allocated is summed:
tables of the automatic fit are projections, sums over all devices (KV self size) belong to no GPU, a file mapping is no memory of its own.
"""

from __future__ import annotations

from analyzer.engines import device
from analyzer.engines.case import Case
from analyzer.engines.lines import Lines
from analyzer.engines.parts import add_sum, by_pattern, gpus, of_gpu, pieces
from analyzer.facts.view import View
from analyzer.model import Fact, Ledger, Source
from analyzer.model.units import MIB, number

#: Facts that name the GPUs of a run.
GPU_FACTS = ("weights", "kv_cache", "compute_buffers", "device.total", "weights.needed", "kv_cache.needed", "compute_buffers.needed")
PARTS = ("weights", "kv_cache", "compute_buffers")
#: The table at exit is one measurement of all parts; the buffers' own lines have two decimals and come first.
TABLE, PROJECTED = "llama.table.measured", "llama.table.projected"
STATE = "llama.state.device"


def ledgers(case: Case) -> list[Ledger]:
    """One ledger for each GPU that a line names; one without a GPU where only host buffers are printed."""
    view = case.view
    found = []
    named = gpus(view, GPU_FACTS)
    bare = any(fact.gpu is None and fact.name in PARTS for fact in view.facts)
    devices = named or ([0] if bare else [])
    for gpu in devices:
        lines = Lines()
        alone = len(devices) == 1
        _card(view, lines, gpu, alone=alone)
        _parts(case, lines, gpu, alone=alone)
        _balance(lines)
        if gpu == devices[0]:
            _host(view, lines)
        if lines:
            found.append(lines.ledger(view.attempt.index, gpu, gpu, case.moment))
    if not devices:
        lines = Lines()
        _host(view, lines)
        if any(name in lines for name in ("host.weights", "host.kv_cache", "host.compute_buffers")):
            found.append(lines.ledger(view.attempt.index, None, None, case.moment))
    return found


def buffers(view: View, name: str, gpu: int, *, alone: bool) -> list[tuple[int, Source]]:
    """(bytes, line) of the allocated buffers ``name`` of one GPU; without lines of their own, what the table at exit says."""
    facts = of_gpu(view, name, gpu, alone=alone)
    own = by_pattern(facts, lambda pattern: pattern != TABLE)
    if own and own[-1].pattern is not None and own[-1].pattern.startswith("ollama."):
        # Its own engine prints the sizes again for every attempt; the last one is what it committed.
        return [(own[-1].bytes, own[-1].source)] if own[-1].bytes else []
    return pieces(view, own) if own else [(fact.bytes, fact.source) for fact in facts[-1:] if fact.bytes]


def _card(view: View, lines: Lines, gpu: int, *, alone: bool) -> None:
    totals = of_gpu(view, "device.total", gpu, alone=alone)
    if totals and len({fact.value for fact in totals if fact.gpu is None}) < 2:
        lines.measured("total", totals[-1])
    starts = of_gpu(view, "device.free_at_start", gpu, alone=alone)
    total = lines.get("total")
    starts = [fact for fact in starts if not _at_exit(view, fact)]
    if len({fact.value for fact in starts if fact.gpu is None}) > 1:  # of several GPUs, or at several times
        starts = [fact for fact in starts if fact.gpu is not None]
    before = starts[0].bytes if starts and totals and _exact(totals[-1], starts[0]) else None
    # Of memory that a GPU shares with the host more may be free than its total says: then nothing is known of others.
    if total is not None and before is not None and before <= total:
        lines.derived("other_processes", total - before, "total − free before the load", starts[0].source)
    table = by_pattern(of_gpu(view, "device.free", gpu, alone=alone), lambda pattern: pattern == TABLE)
    if table:
        lines.measured("free", table[-1])


def _at_exit(view: View, fact: Fact) -> bool:
    """Whether the table ``fact`` stands in was printed after the start, though its remainder is below zero as in a projection: a driver
    (SYCL's) that reports everything free. Its parts are measured then, and what it calls free is not."""
    came = view.attempt.ready or view.attempt.shutdown
    return fact.pattern == PROJECTED and came is not None and fact.source.line > came.line


def _exact(total: Fact, free: Fact) -> bool:
    """Whether both are printed in MiB: a difference of figures with one decimal of GiB says nothing about small neighbours."""
    return total.unit == "MiB" and free.unit == "MiB"


def _parts(case: Case, lines: Lines, gpu: int, *, alone: bool) -> None:
    view = case.view
    for name in PARTS:
        add_sum(lines, name, buffers(view, name, gpu, alone=alone))
    state = view.attempt.signs.get(STATE)
    if state is not None:
        mine = [(place, groups) for place, groups in state.seen if groups.get("gpu") == str(gpu)]
        sizes = [(round(float(number(groups["size"])) * MIB), view.source(place)) for place, groups in mine]
        add_sum(lines, "state_cache", sizes)
    for name in PARTS:
        at_exit = [fact for fact in of_gpu(view, f"{name}.needed", gpu, alone=alone) if _at_exit(view, fact)]
        if name not in lines and at_exit:
            lines.measured(name, at_exit[-1])
    if "weights" not in lines and case.state in ("healthy", "degraded"):
        planned = by_pattern(of_gpu(view, "weights.needed", gpu, alone=alone), lambda pattern: pattern == PROJECTED)
        if planned and planned[-1].bytes:
            lines.estimated("weights", planned[-1].bytes, "projected before the load, which then succeeded")
    nothing = not any(name in lines for name in (*PARTS, "state_cache", "free"))
    free = of_gpu(view, "device.free_at_start", gpu, alone=alone)
    if nothing and case.state == "failed" and case.stage in ("device_init", "weight_load", "launch") and free:
        # Nothing of its own lies on the card yet: what was free is free. The figure beside the card's total belongs to it best.
        beside = by_pattern(free, lambda pattern: pattern == PROJECTED)
        lines.measured("free", (beside or free)[-1])


def _balance(lines: Lines) -> None:
    total, free = lines.get("total"), lines.get("free")
    if total is None or free is None:
        return
    parts = sum(lines.get(name) or 0 for name in (*PARTS, "state_cache", "other_processes"))
    rest = total - free - parts
    if abs(rest) >= device.ROUNDING_BYTES:
        lines.derived("unaccounted", rest, "total − parts − other_processes − free")


def _host(view: View, lines: Lines) -> None:
    """System memory: buffers of its own; a file mapping overlaps what lies on the GPUs and is left out."""
    weights = [fact for fact in view.all("host.weights") if "_Mapped" not in fact.source.text]
    for name, facts in (
        ("host.weights", weights),
        ("host.kv_cache", view.all("host.kv_cache")),
        ("host.compute_buffers", view.all("host.compute_buffers")),
    ):
        committed = facts[-1:] if facts and (facts[-1].pattern or "").startswith("ollama.") else []
        mapped = name == "host.weights" and len(facts) < len(view.all(name))
        sizes = [(fact.bytes, fact.source) for fact in committed or facts if fact.bytes]
        add_sum(lines, name, sizes if committed or mapped else pieces(view, facts))
    lines.measured("host.total", view.fact("host.total"))
    lines.measured("host.available", view.fact("host.available"))
