"""The figures that every solver starts from: budget, pool, what one request needs, what was free, which settings were in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from analyzer.engines.case import Case
from analyzer.engines.lines import spell
from analyzer.engines.vllm import flags, kv
from analyzer.engines.vllm.changes import where
from analyzer.engines.vllm.eras import Era, Others, Where, as_range, common_others, default_utilization
from analyzer.engines.vllm.identity import budget_bytes
from analyzer.engines.vllm.ledger import environment, eras, graphs_inside, reserved
from analyzer.engines.vllm.pool import Override, cached_shape, largest_stage, overridden
from analyzer.engines.vllm.printed import HALF_HUNDREDTH, LATER, NULL_BLOCK_COUNTS, SWAP_SPACE, block_bytes_from_swap
from analyzer.engines.vllm.shapes import Shape
from analyzer.facts.view import View
from analyzer.model import Basis, Ledger, LedgerLine
from analyzer.model.ledger import ordered
from analyzer.model.units import GIB

#: V0's block of tokens where nothing states another one (vllm/config.py, CUDA).
DEFAULT_BLOCK = 16
#: Lines that only a pool of several groups prints.
PADDED = frozenset({"vllm.kv.hybrid_padding", "vllm.kv.hybrid_page_padding"})
#: No card is given away whole: the driver and the process's own context lie outside every budget.
HIGHEST = 0.99


@dataclass(slots=True)
class Shortfall:
    """An allocation that was refused: what was asked for and what was free, in bytes."""

    tried: int
    free: int

    @property
    def missing(self) -> int:
        """Bytes that were missing at least; 0 where more was free than asked for (then the pieces did not fit)."""
        return max(0, self.tried - self.free)


class Plan:
    """A Case seen by the solver. Sizes are bytes; None is unknown."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.view: View = case.view
        self.where: Where = where(case.view)

    # --- settings ----------------------------------------------------------------------------------------------------------------

    def spelled(self, flag: str) -> str | None:
        """The flag as every possible version spells it; over a range, as the newest of them does."""
        return flags.spelled(flag, self.where) or (
            flags.spelled(flag, flags.resolve(self.where)[-1]) if flags.resolve(self.where) else None
        )

    def setting(self, flag: str) -> object:
        """The value that the inputs state for ``flag``."""
        return self.view.setting(flag)

    def whole(self, flag: str) -> int | None:
        """A whole number that the inputs state for ``flag``."""
        value = self.view.setting(flag)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @cached_property
    def utilization(self) -> float | None:
        """gpu_memory_utilization in force: as stated, else the default of every possible version, else None."""
        fact = self.view.fact("budget.utilization")
        if fact is not None and isinstance(fact.value, (int, float)):
            return float(fact.value)
        return default_utilization(self.where)

    @cached_property
    def utilization_stated(self) -> bool:
        """Whether an input states it."""
        return self.view.fact("budget.utilization") is not None

    @cached_property
    def max_len(self) -> int | None:
        """max_model_len in force, in tokens."""
        value = self.view.number("model.max_len")
        return int(value) if value is not None else None

    @cached_property
    def tensor_parallel(self) -> int:
        """Tensor parallel size; 1 where nothing states another one."""
        return self.whole("--tensor-parallel-size") or self.view.ranks.world_size

    # --- memory ------------------------------------------------------------------------------------------------------------------

    @cached_property
    def ledger(self) -> Ledger | None:
        """The ledger of the GPU on which the answer rests: that of the failure; for the pool, the one with the least room."""
        about_pool = (self.case.cause or "").startswith("kv_cache.") or self.case.state in ("healthy", "degraded")
        if about_pool and self.case.ledgers:
            return min(self._of_engine(), key=self._room)
        return self.case.ledger

    def _of_engine(self) -> list[Ledger]:
        """The ledgers of the engine that failed, where a tag tells: every data parallel engine sizes its own pool."""
        event = self.case.event
        replica = event.process.group("DP") if event is not None and event.process is not None else None
        size = self.view.ranks.world_size
        own = [found for found in self.case.ledgers if found.rank is not None and found.rank // size == replica]
        return own or self.case.ledgers

    def _room(self, ledger: Ledger) -> tuple[bool, int]:
        """What its rank had for the pool, before it was cut to another's."""
        available = self.view.fact("kv_cache.available", ledger.rank)
        pool = available.bytes if available is not None and available.rank is not None else ledger.get("kv_cache")
        return pool is None, pool or 0

    def line(self, name: str) -> int | None:
        """Bytes of a line of that ledger."""
        return self.ledger.get(name) if self.ledger is not None else None

    @cached_property
    def rank(self) -> int | None:
        """The rank of that ledger."""
        return self.ledger.rank if self.ledger is not None else self.case.rank

    @cached_property
    def total(self) -> int | None:
        return self.line("total")

    @cached_property
    def budget(self) -> int | None:
        """The budget: printed, or total × utilization; with what is held in it for others."""
        printed = self.line("budget")
        if printed is not None:
            return printed + self.reserved
        if self.total is None or self.utilization is None:
            return None
        return budget_bytes(self.total, self.utilization)

    @cached_property
    def reserved(self) -> int:
        """Bytes of the budget that are held for others (ledger.reserved); the ledger's budget is without them."""
        line = self.ledger.line("budget") if self.ledger is not None else None
        if line is not None and line.basis is Basis.MEASURED:
            return 0  # more is held than there is of it: the ledger shows it as printed
        return reserved(self.view, self.rank)

    @cached_property
    def pool(self) -> int | None:
        """What was left for the KV pool; negative where nothing was."""
        return self.line("kv_cache")

    @cached_property
    def pinned(self) -> int | None:
        """The pool's size where it is set by hand (--kv-cache-memory-bytes, 0.10.2+): the utilization then sizes nothing."""
        if self.case.on_cpu:
            return None
        for flag in ("--kv-cache-memory-bytes", "--kv-cache-memory"):
            stated = self.whole(flag)
            if stated is not None:
                return stated
        return self.view.bytes("kv_cache.requested", self.rank)

    @cached_property
    def override(self) -> Override | None:
        """The pool's number of blocks where --num-gpu-blocks-override sets it: neither utilization nor a pinned size moves it then."""
        return overridden(self.view, self.rank)

    @property
    def by_hand(self) -> bool:
        """Whether the pool's size is set by hand or taken from an earlier start: the utilization then sizes nothing."""
        return self.pinned is not None or self.override is not None

    @property
    def short_by_hand(self) -> bool:
        """Whether a pool that is set by hand is what lacks room: it does not grow with what weights and activations give up."""
        return self.by_hand and (self.case.cause or "").startswith("kv_cache.")

    @cached_property
    def tokens(self) -> int | None:
        """Tokens that the pool holds, as the engine counts them."""
        value = self.view.number("kv_cache.tokens", self.rank)
        if value is not None:
            return int(value)
        blocks = self.view.number("kv_cache.gpu_blocks", self.rank)
        return int(blocks) * self.block_size if blocks is not None else None

    @cached_property
    def block_size(self) -> int:
        value = self.view.number("kv_cache.block_size")
        return int(value) if value is not None else DEFAULT_BLOCK

    @cached_property
    def needed(self) -> int | None:
        """Bytes that one request of max_model_len needs: printed, or the pool over the concurrency that it gives, or in blocks (V0).

        Where the state blocks are too few: what as many as sequences are asked for take.
        """
        if self.case.cause == "kv_cache.mamba_blocks_below_max_num_seqs":
            blocks, asked = self.view.number("mamba.blocks"), self.view.number("scheduler.max_num_seqs")
            return -(-self.pool * int(asked) // int(blocks)) if self.pool and self.pool > 0 and blocks and asked else None
        printed = self.view.bytes("kv_cache.needed", self.rank)
        if printed is not None:
            return printed
        if self.pool is None:
            return None
        if self.pool <= 0:
            length = self.max_len or self.view.number("concurrency.at_tokens")
            return -(-int(length) // self.block_size) * self.swapped_block if length and self.swapped_block else None
        if self.view.generation == "v0" and self.tokens and self.max_len and self.tokens >= self.block_size:
            blocks = -(-self.max_len // self.block_size)
            return round(self.pool * blocks / (self.tokens // self.block_size))
        concurrency, at = self.view.number("concurrency.max", self.rank), self.view.number("concurrency.at_tokens", self.rank)
        if concurrency and at and (self.max_len is None or int(at) == self.max_len) and concurrency >= 0.05:
            return round(self.pool / concurrency)
        return None

    @cached_property
    def swapped_block(self) -> int | None:
        """Bytes of a V0 block out of the CPU blocks that the swap space (4 GiB unless set) was cut into."""
        blocks = self.view.number("kv_cache.cpu_blocks")
        if self.view.generation != "v0" or not blocks:
            return None
        swap = self.setting("--swap-space")
        size = int(swap * GIB) if isinstance(swap, (int, float)) and not isinstance(swap, bool) else SWAP_SPACE
        found = block_bytes_from_swap(int(blocks), size)
        return found.high if found is not None else None

    @cached_property
    def needed_by_shape(self) -> int | None:
        """Bytes that one request of max_model_len needs by the model's shape; None for models that do not keep every token."""
        shape = self.shape
        if shape is None or self.max_len is None or shape.state_layers or shape.window_layers or not shape.windows_known:
            return None
        if self.whole("--decode-context-parallel-size") not in (None, 1):
            return None  # each rank holds a part of the tokens
        dtype = self.setting("--dtype")
        token = kv.bytes_per_token(
            shape,
            # Ranks that no degree explains are stages as well as tensor parallel ones.
            tensor_parallel=self.tensor_parallel if self.stages == 1 else self.whole("--tensor-parallel-size") or 1,
            kv_cache_dtype=self.kv_dtype,
            model_dtype=str(dtype).removeprefix("torch.") if dtype not in (None, "auto") else None,
            layers=largest_stage(self.view, shape),
        )
        return None if token is None else token * self.block_size * (-(-self.max_len // self.block_size) + self.null_blocks)

    @cached_property
    def least_pool(self) -> int | None:
        """Bytes that the pool has to hold: one request as printed, or by the model's shape where nothing was left and none is printed."""
        if self.needed is not None or self.pool is None or self.pool > 0:
            return self.needed
        # The pool's own figure is printed in hundredths of a GiB.
        return None if self.needed_by_shape is None else self.needed_by_shape + HALF_HUNDREDTH

    @cached_property
    def beyond_card(self) -> bool:
        """Whether weights and one request alone exceed the card: then nothing that a step takes less opens the length."""
        weights, needed = self.line("weights"), self.least_pool
        if self.total is None or weights is None or needed is None or not (self.case.cause or "").startswith("kv_cache."):
            return False
        return weights + needed > HIGHEST * self.total

    @cached_property
    def null_blocks(self) -> int:
        """Blocks that the check of one request takes off the pool first: 1 where a possible version does so."""
        return 1 if self.view.generation != "v0" and as_range(self.where) & NULL_BLOCK_COUNTS else 0

    @cached_property
    def stages(self) -> int:
        """Pipeline parallel size; 1 where nothing states another one."""
        return self.whole("--pipeline-parallel-size") or 1

    @cached_property
    def free0(self) -> int | None:
        """Free memory at the engine's first snapshot."""
        return self.view.bytes("device.free_at_start", self.rank)

    @cached_property
    def shortfall(self) -> Shortfall | None:
        """What the failing line asked for and what was free; None where it does not say both."""
        named = {fact.name: fact for fact in self.case.figures}
        tried, free = named.get("oom.tried"), named.get("oom.free")
        if tried is None or free is None or tried.bytes is None or free.bytes is None:
            return None
        return Shortfall(tried.bytes, free.bytes)

    @cached_property
    def captured(self) -> int:
        """Bytes in the graphs' private pools when an allocation was refused during capture; 0 where none is printed."""
        pools = next((fact.bytes for fact in self.case.figures if fact.name == "oom.private_pools"), None)
        return pools or 0 if self.case.stage == "graph_capture" else 0

    @cached_property
    def eras(self) -> tuple[Era, ...]:
        return eras(self.view)

    @cached_property
    def others(self) -> Others | None:
        """What other processes do to the pool, where all possible eras agree."""
        return common_others(self.eras)

    @cached_property
    def graphs_inside(self) -> bool | None:
        """Whether the budget reserves the graphs; None where the possible versions differ."""
        return graphs_inside(self.view)

    @cached_property
    def env(self) -> Mapping[str, str]:
        return environment(self.view)

    @cached_property
    def kv_dtype(self) -> str:
        """The KV dtype asked for; ``auto`` where nothing states one."""
        value = self.setting("--kv-cache-dtype")
        return str(value) if value is not None else "auto"

    @cached_property
    def shape(self) -> Shape | None:
        """The model's shape as this version caches it, where it is known."""
        return cached_shape(self.view)

    @cached_property
    def hybrid(self) -> bool:
        """Whether the log shows a pool that does not grow in proportion to the length (Mamba, sliding window, several groups).

        From 0.20.1 on the printed tokens are the concurrency times the length by definition: the model's shape tells then.
        """
        if self.view.fact("mamba.blocks") is not None:
            return True
        patterns = {fact.pattern or "" for fact in self.view.facts} | set(self.view.attempt.event_counts)
        patterns |= self.view.attempt.patterns & PADDED
        if any("mamba" in name or "hybrid" in name or "sliding" in name for name in patterns):
            return True
        if as_range(self.where) & LATER and "vllm.kv.hybrid_manager_off" not in self.view.attempt.patterns and self.shape is not None:
            return bool(self.shape.window_layers or self.shape.state_layers)
        tokens, concurrency = self.view.number("kv_cache.tokens"), self.view.number("concurrency.max")
        at = self.view.number("concurrency.at_tokens")
        if tokens and concurrency and at and not as_range(self.where) & LATER:
            return abs(tokens / at - concurrency) > 0.02 * concurrency + 0.02
        estimated = self.view.number("kv_cache.estimated_max_len")
        if estimated and self.pool and self.needed and self.max_len:
            linear = self.pool / self.needed * self.max_len
            return abs(linear - estimated) > 0.03 * linear + 2 * self.block_size
        return False

    @cached_property
    def plain(self) -> bool | None:
        """Whether every layer keeps every token; None where a later release's figures are all there is, which say nothing of it."""
        if self.hybrid:
            return False
        return None if self.shape is None and as_range(self.where) & LATER and self.view.generation != "v0" else True

    # --- ledgers after a change --------------------------------------------------------------------------------------------------

    def with_budget(self, utilization: float) -> Ledger | None:
        """The ledger at another utilization: budget and pool move, everything else stays as measured. None without total and pool."""
        if self.ledger is None or self.total is None or self.budget is None or self.pool is None:
            return None
        budget = budget_bytes(self.total, utilization)
        pool = self.pool + budget - self.budget
        formula = spell("total × {u} = {t} × {u}", t=self.total, u=utilization)
        return self.replaced(
            LedgerLine("budget", budget - self.reserved, Basis.DERIVED, formula=formula),
            LedgerLine("kv_cache", pool, Basis.DERIVED, formula="budget − everything else of it, as measured"),
        )

    def with_pool(self, size: int, formula: str) -> Ledger | None:
        """The ledger with the pool set to ``size``."""
        return self.replaced(LedgerLine("kv_cache", size, Basis.DERIVED, formula=formula), without=("budget",))

    def replaced(self, *lines: LedgerLine, without: tuple[str, ...] = ()) -> Ledger | None:
        """The plan's lines with some of them replaced. The card's lines of the failure are not those of the next start and go."""
        if self.ledger is None:
            return None
        kept = {line.name: line for line in self.ledger.lines if line.name in PLAN_LINES and line.name not in without}
        kept |= {line.name: line for line in lines}
        return Ledger(self.ledger.attempt, self.ledger.gpu, self.ledger.rank, "predicted", ordered(kept.values()))

    def fits(self, ledger: Ledger | None) -> bool:
        """Whether the predicted plan holds: a pool above zero that takes one request where that is known, within the card."""
        if ledger is None:
            return False
        pool, budget, total = ledger.get("kv_cache"), ledger.get("budget"), ledger.get("total")
        if pool is None or pool <= 0 or (self.needed is not None and pool < self.needed):
            return False
        return budget is None or total is None or budget <= total


PLAN_LINES = frozenset(
    {
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
    }
)
