"""vLLM's arithmetic of what-if: the measured ledger moved by the identity of its era (identity.py, inverse.py, kv.py).

What a change leaves alone stays as measured. What it moves is worked out: exactly where the identity says how (utilization, a pool set
by hand, blocks), in proportion where the engine would measure anew (weights over ranks, activations over tokens), and the formula says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzer.engines.start import Start
from analyzer.engines.vllm import printed
from analyzer.engines.vllm import what_if_checks as conditions
from analyzer.engines.vllm import what_if_need as needs
from analyzer.engines.vllm.eras import Era, GraphRule, Where, default_utilization, possible
from analyzer.engines.vllm.identity import budget_bytes
from analyzer.engines.vllm.what_if_settings import BATCHED, DTYPE, EAGER, LENGTH, OVERRIDE, PINNED, PP, SEQS, TP, UTILIZATION, normal, whole
from analyzer.engines.what_if import WhatIf
from analyzer.model import Basis, Ledger, LedgerLine, Text, Value
from analyzer.model.ledger import ordered
from analyzer.model.units import human

#: Lines of the plan; those of the card at a failure are not the next start's.
PLAN = (
    "total",
    "budget",
    "weights",
    "draft_weights",
    "kv_cache",
    "state_cache",
    "non_torch",
    "activation_peak",
    "cuda_graphs_reserved",
    "cuda_graphs",
)


def what_if(start: Start, settings: Mapping[str, Value | None]) -> WhatIf:
    """The start with ``settings`` changed. Raises WhatIfError for an unknown setting or a value out of range."""
    run = Run(start, normal(settings))
    ledgers = run.cut([run.after(ledger) for ledger in run.subjects()])
    checks = tuple(check for before, after in zip(run.subjects(), ledgers, strict=True) for check in conditions.checks(run, before, after))
    checks = (*checks, *conditions.state_blocks(run, ledgers))
    known = [check.margin for check in checks if check.margin is not None and check.unit == "B"]
    fits: bool | None = True
    if any(check.passed is False for check in checks):
        fits = False
    elif not checks or any(check.passed is None for check in checks):
        fits = None
    pools = [(ledger.get("kv_cache"), needs.tokens(run, ledger)) for ledger in ledgers]
    pool = min((size for size, _ in pools if size is not None), default=None)
    tokens = min((held for _, held in pools if held is not None), default=None)
    need = needs.needed(run, run.length) if run.length else None
    return WhatIf(
        ledgers,
        fits,
        min(known, default=None),
        checks,
        {flag: (run.now(flag), value) for flag, value in run.changes.items()},
        kept=tuple(sorted({line.name for ledger in ledgers for line in ledger.lines if line.basis is Basis.MEASURED})),
        scaled=tuple(dict.fromkeys(run.scaled)),
        notes=tuple(dict.fromkeys(run.notes)),
        max_model_len=run.length,
        longest=needs.longest(run, ledgers),
        concurrency=round(pool / need, 2) if pool is not None and pool > 0 and need else None,
        tokens=tokens,
    )


@dataclass(slots=True)
class Run:
    """One question. ``changes``: only those that differ from what is in force."""

    start: Start
    asked: dict[str, Value | None]
    changes: dict[str, Value | None] = field(init=False)
    scaled: list[str] = field(default_factory=list)
    notes: list[Text] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changes = {flag: value for flag, value in self.asked.items() if not self._same(flag, value)}
        if SEQS in self.changes:
            self.notes.append(
                Text(
                    "The sampler's buffers and the largest captured graphs follow --max-num-seqs; they stay as measured here.",
                    "采样缓冲和最大的 CUDA graph 随 --max-num-seqs 变化，这里仍按实测值计算。",
                )
            )

    # --- what is in force ----------------------------------------------------------------------------------------------------------

    def now(self, flag: str) -> Value | None:
        """The value in force before the change; None where the inputs do not tell."""
        start = self.start
        fact = {
            UTILIZATION: "budget.utilization",
            LENGTH: "model.max_len",
            SEQS: "scheduler.max_num_seqs",
            BATCHED: "scheduler.max_num_batched_tokens",
        }.get(flag)
        found = start.number(fact) if fact is not None else None
        if found is None and flag == LENGTH:
            found = start.number("concurrency.at_tokens")
        if found is not None:
            return found
        if flag == UTILIZATION:
            return self._share() or default_utilization(self.where)
        stated = start.settings.get(flag)
        if flag == PINNED:
            return self._whole_or(stated, start.bytes("kv_cache.requested"))
        if flag == OVERRIDE:
            return self._whole_or(stated, start.number("kv_cache.gpu_blocks_override"))
        if flag in (TP, PP):
            if isinstance(stated, int) and stated > 0:
                return stated
            # Ranks that nothing explains otherwise are tensor parallel ones.
            return max(1, len(start.ledgers)) if flag == TP and not start.whole(PP) else 1
        if flag == EAGER:
            return bool(stated)
        return "auto" if flag == DTYPE and stated is None else stated

    @staticmethod
    def _whole_or(stated: Value | None, other: float | None) -> int | None:
        """A setting that is a whole number, else what the log says of it."""
        if isinstance(stated, int) and not isinstance(stated, bool):
            return stated
        return None if other is None else int(other)

    @property
    def by_hand(self) -> bool:
        """Whether the pool's size is set by hand after the change: the utilization sizes nothing then."""
        return self.after_change(PINNED) is not None or self.after_change(OVERRIDE) is not None

    @property
    def takes_more(self) -> bool:
        """Whether a change may ask for more memory beside the utilization and the length, which move nothing under a pool set by hand."""
        return any(flag not in (UTILIZATION, LENGTH) for flag in self.changes)

    def _share(self) -> float | None:
        """The utilization that budget and total stand for, to the hundredth."""
        for ledger in self.start.ledgers:
            total, budget = ledger.get("total"), ledger.get("budget")
            if total and budget:
                return round(budget / total, 2)
        return None

    def _same(self, flag: str, value: Value | None) -> bool:
        now = self.now(flag)
        if flag == EAGER:
            return bool(now) == bool(value)
        return (now is not None and now == value) or (now is None and value is None)

    def after_change(self, flag: str) -> Value | None:
        """The value in force after the change."""
        return self.changes[flag] if flag in self.changes else self.now(flag)

    @property
    def length(self) -> int | None:
        """max_model_len after the change."""
        value = self.after_change(LENGTH)
        return int(value) if isinstance(value, (int, float)) and value > 0 else None

    @property
    def where(self) -> Where:
        return self.start.version if self.start.version is not None and _is_version(self.start.version) else self.start.versions

    @property
    def eras(self) -> tuple[Era, ...]:
        generation = self.start.generation if self.start.generation in ("v0", "v1") else None
        return possible(self.where, generation)  # type: ignore[arg-type]

    @property
    def ranks(self) -> tuple[int, int]:
        """GPUs that the weights are spread over, before and after."""
        before = after = 1
        for flag in (TP, PP):
            before *= whole(self.now(flag))
            after *= whole(self.after_change(flag))
        return before, after

    @property
    def eager(self) -> bool:
        return bool(self.after_change(EAGER))

    # --- ledgers -------------------------------------------------------------------------------------------------------------------

    def subjects(self) -> list[Ledger]:
        """The ledgers that are moved: all; where the number of ranks changes the one with the least room, which stands for each."""
        if self.ranks[0] == self.ranks[1]:
            return self.start.ledgers
        tight = min(self.start.ledgers, key=lambda ledger: (ledger.get("kv_cache") is None, ledger.get("kv_cache") or 0))
        return [tight]

    def after(self, ledger: Ledger) -> Ledger:
        """The plan of one GPU after the change."""
        if not self.changes:
            return Ledger(ledger.attempt, ledger.gpu, ledger.rank, "predicted", tuple(line for line in ledger.lines if line.name in PLAN))
        lines = {line.name: line for line in ledger.lines if line.name in PLAN}
        freed: int | None = 0  # bytes that the other parts of the budget give to the pool; None: cannot be told
        for step in (self._weights, self._activations, self._graphs):
            gain = step(lines)
            freed = None if freed is None or gain is None else freed + gain
        gain = self._budget(lines)
        freed = None if freed is None or gain is None else freed + gain
        self._pool(ledger, lines, freed)
        return Ledger(ledger.attempt, ledger.gpu, ledger.rank, "predicted", ordered(lines.values()))

    def _weights(self, lines: dict[str, LedgerLine]) -> int | None:
        before, after = self.ranks
        if before == after:
            return 0
        line = lines.get("weights")
        self.notes.append(
            Text(
                "Weights are divided over the ranks in proportion; what every rank keeps (norms, small layers) and NCCL's buffers are "
                "not known. Activations and memory outside PyTorch stay as measured.",
                "权重按 rank 数平均；每个 rank 都保留的部分（norm 等小层）和 NCCL 缓冲未知。激活和 PyTorch 之外的占用沿用实测值。",
            )
        )
        if line is None:
            return None
        size = round(line.bytes * before / after)
        lines["weights"] = LedgerLine(
            "weights", size, Basis.ESTIMATED, formula=f"weights × {before} / {after} = {human(line.bytes)} × {before} / {after}"
        )
        self.scaled.append("weights")
        gain = line.bytes - size
        if after < before and (peak := lines.get("activation_peak")) is not None:
            more = round(peak.bytes * before / after)
            lines["activation_peak"] = LedgerLine(
                "activation_peak", more, Basis.ESTIMATED, formula=f"activation peak × {before} / {after}, at most"
            )
            self.scaled.append("activation_peak")
            gain += peak.bytes - more
        return gain

    def _activations(self, lines: dict[str, LedgerLine]) -> int | None:
        """The profile's peak in proportion to the tokens of its step: max_num_batched_tokens, in V0 without chunked prefill a prompt."""
        before, after = self.now(BATCHED), self.changes.get(BATCHED)
        if BATCHED not in self.changes and LENGTH in self.changes and self._whole_prompts():
            before, after = self.now(LENGTH), self.changes[LENGTH]
        elif BATCHED not in self.changes:
            return 0
        line = lines.get("activation_peak")
        if not isinstance(before, (int, float)) or not isinstance(after, (int, float)) or before <= 0 or line is None:
            self.notes.append(
                Text(
                    "The activation peak follows the tokens of a step; by how much, these inputs do not tell.",
                    "激活峰值随每步的 token 数变化；变化多少，输入里看不出。",
                )
            )
            return None
        size = round(line.bytes * after / before)
        formula = f"activation peak × {int(after)} / {int(before)} tokens = {human(line.bytes)} × {after / before:.3g}"
        lines["activation_peak"] = LedgerLine("activation_peak", size, Basis.ESTIMATED, formula=formula)
        self.scaled.append("activation_peak")
        return line.bytes - size

    def _whole_prompts(self) -> bool:
        from analyzer.engines.vllm.defaults import chunked_prefill

        if self.start.generation != "v0" or self.start.settings.get("--enable-chunked-prefill"):
            return False
        length = self.start.number("model.max_len")
        return chunked_prefill(self.where, "v0", int(length) if length else None) is False

    def _graphs(self, lines: dict[str, LedgerLine]) -> int | None:
        if EAGER not in self.changes:
            return 0
        if self.eager:
            lines.pop("cuda_graphs", None)
            reserved = lines.pop("cuda_graphs_reserved", None)
            return reserved.bytes if reserved is not None else 0
        self.notes.append(Text("What the graphs will take, an eager start does not tell.", "eager 启动看不出 CUDA graph 会占多少。"))
        rules = {era.graphs for era in self.eras}
        return 0 if rules == {GraphRule.OUTSIDE} else None

    def _budget(self, lines: dict[str, LedgerLine]) -> int | None:
        if UTILIZATION not in self.changes or self.by_hand:
            return 0
        total, budget, share = lines.get("total"), lines.get("budget"), self.changes[UTILIZATION]
        if total is None or not isinstance(share, (int, float)):
            self.notes.append(
                Text(
                    "The card's total is not in the inputs: nvidia-smi makes the utilization a number.",
                    "输入里没有显卡总显存；补上 nvidia-smi 才能换算 utilization。",
                )
            )
            return None
        before = self.now(UTILIZATION)
        if not isinstance(before, (int, float)):
            return None
        gain = budget_bytes(total.bytes, float(share)) - budget_bytes(total.bytes, float(before))
        # From the printed budget on, which may be without what is held for others (ledger.reserved).
        size = (budget.bytes if budget is not None else budget_bytes(total.bytes, float(before))) + gain
        formula = f"total × gpu_memory_utilization = {human(total.bytes)} × {share:g}"
        lines["budget"] = LedgerLine("budget", size, Basis.DERIVED, formula=formula)
        return gain

    def _pool(self, ledger: Ledger, lines: dict[str, LedgerLine], freed: int | None) -> None:
        pool = lines.pop("kv_cache", None)
        if self.by_hand:
            lines.pop("budget", None)
            line = self._set_by_hand(ledger, pool)
        elif PINNED in self.changes or OVERRIDE in self.changes:
            line = self._profiled(ledger, freed)
        elif pool is None or freed is None:
            line = None
        elif freed == 0:
            line = pool
        else:
            basis = Basis.ESTIMATED if self.scaled else Basis.DERIVED
            line = LedgerLine("kv_cache", (self._uncut(ledger) or pool.bytes) + freed, basis, formula="budget − everything else of it")
        if line is not None:
            lines["kv_cache"] = line

    def _uncut(self, ledger: Ledger) -> int | None:
        """What this rank had for its pool, where it was cut to the blocks of another one; None where it was not."""
        pool, own = ledger.line("kv_cache"), self.start.figure("kv_cache.available", ledger.rank)
        cut = pool is not None and pool.basis is Basis.DERIVED and not self.by_hand and own is not None and own.rank == ledger.rank
        return own.bytes if cut and own is not None else None

    def cut(self, ledgers: list[Ledger]) -> tuple[Ledger, ...]:
        """All ranks use the blocks of the one with the least, as before the change."""
        if not any(self._uncut(ledger) for ledger in self.subjects()):
            return tuple(ledgers)
        least = min(
            (line for ledger in ledgers if (line := ledger.line("kv_cache")) is not None), key=lambda line: line.bytes, default=None
        )
        if least is None:
            return tuple(ledgers)
        return tuple(
            Ledger(one.attempt, one.gpu, one.rank, one.moment, tuple(least if line.name == "kv_cache" else line for line in one.lines))
            for one in ledgers
        )

    def _set_by_hand(self, ledger: Ledger, pool: LedgerLine | None) -> LedgerLine | None:
        """A number of blocks goes before a number of bytes (kv_cache_utils.may_override_num_blocks)."""
        override, pinned = self.after_change(OVERRIDE), self.after_change(PINNED)
        if isinstance(override, int):
            block, factor = self._block_bytes(ledger), needs.token_factor(self)
            if block is None or factor is None:
                self.notes.append(Text("Bytes of a block are not in the inputs.", "输入里没有每个 block 的字节数。"))
                return None
            if pool is not None and OVERRIDE not in self.changes and factor == 1:
                return pool
            formula = f"{OVERRIDE} × bytes of a block = {override} × {human(block * factor)}"
            return LedgerLine("kv_cache", round(override * block * factor), Basis.DERIVED, formula=formula)
        if pool is not None and PINNED not in self.changes and OVERRIDE not in self.changes:
            return pool
        return LedgerLine("kv_cache", whole(pinned), Basis.DERIVED, formula=f"{PINNED}: set by hand")

    def _block_bytes(self, ledger: Ledger) -> float | None:
        """Bytes of a block of the pool: by its blocks, printed or as the tokens of a plain model tell them."""
        pool, start = ledger.get("kv_cache"), self.start
        had = self.now(OVERRIDE) or start.number("kv_cache.gpu_blocks", smallest=True)
        if had is None and (tokens := needs.held(self)) is not None and needs.is_plain(self):
            length = start.number("concurrency.at_tokens")
            found = printed.blocks_from_tokens(tokens, needs.block_size(self), self.where, max_model_len=int(length) if length else None)
            had = found.low if found is not None else None
        return pool / had if pool and isinstance(had, (int, float)) and had > 0 else None

    def _profiled(self, ledger: Ledger, freed: int | None) -> LedgerLine | None:
        """The pool without the number that was set by hand: what the profile found, where it ran and is printed."""
        ours = [figure for figure in self.start.figures if figure.name == "kv_cache.available" and figure.rank in (ledger.rank, None)]
        if self.now(OVERRIDE) is not None and self.now(PINNED) is None and ours and ours[0].bytes is not None and freed is not None:
            return LedgerLine("kv_cache", ours[0].bytes + freed, Basis.DERIVED, formula="what the profile found")
        self.notes.append(
            Text("What the profile would find without it, these inputs do not tell.", "去掉它之后 profile 会得到多少，输入里看不出。")
        )
        return None


def _is_version(text: str) -> bool:
    from analyzer.model.versions import base

    try:
        base(text)
    except ValueError:
        return False
    return True
