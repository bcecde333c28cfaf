"""Engine ranks → cards → processes: which row of a dump is the GPU that a rank talks about, and whose memory lies on it.

By process id where the dump lists one that the engine's tags name; by CUDA_VISIBLE_DEVICES (indices, UUIDs, MIG ids); by index; by the
totals where CUDA's order is not the tool's. A card is never taken against its total: CUDA reports a little less than the tool does
(nvidia-smi.md, section 0), never more. Pure: it knows dumps and figures, no attempts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analyzer.model import Gpu, GpuProcess, GpuSnapshot
from analyzer.model.gpu import MigDevice
from analyzer.model.units import MIB, natural

#: CUDA's total may lie below the tool's by this much: the context-independent reserve of the driver (300 to 1,000 MiB), at least 4 %.
BELOW_BYTES, BELOW_SHARE = 1100 * MIB, 0.04
#: And above it by rounding, or where an old driver's total is net of the reserve.
ABOVE_SHARE = 0.02
#: One process, seen by two tools or a moment apart.
SAME_BYTES, SAME_SHARE = 256 * MIB, 0.01
#: Less than this on a card is a context, a display, a leftover: no engine.
CONTEXT_BYTES = 1024 * MIB

_ENGINE_NAME = re.compile(r"VLLM::|EngineCore|VllmWorker|sglang::|ray::\S*Worker|vllm|text-generation-server|llama-server|ollama")
_RANK_NAME = re.compile(r"VLLM::Worker(?:_DP(?P<dp>\d+))?(?:_PP(?P<pp>\d+))?(?:_TP(?P<tp>\d+))?|VllmWorker-(?P<old>\d+)")
_DISPLAY = re.compile(
    r"(?i)xorg|xwayland|/x\b|gnome-shell|kwin|plasmashell|compositor|cinnamon|mutter|sway|hyprland|firefox|chrome|explorer\.exe|dwm\.exe|"
    r"shellexperiencehost|searchapp|msedge|slack|discord|steamwebhelper|code\b"
)
#: Devices whose CPU and GPU share one pool of memory.
UNIFIED = re.compile(r"\b(?:GB10|DGX Spark|Jetson|Orin|Thor|Tegra|nvgpu)\b")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One GPU of the engine, as its log describes it.

    ``gpu`` is CUDA's index inside the engine (before CUDA_VISIBLE_DEVICES is applied to it); ``total`` CUDA's figure; ``process`` what the
    rank's process holds, ``floor`` what it holds at least (weights and pool), in bytes; ``pids`` are the rank's own, ``family`` those of
    the whole server.
    """

    gpu: int | None = None
    rank: int | None = None
    total: int | None = None
    process: int | None = None
    floor: int | None = None
    pids: frozenset[int] = frozenset()
    family: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Match:
    """The card (or slice of it) that a rank runs on, and whose processes are on it. Sizes in bytes.

    ``how`` the card was found: pid, uuid, index, total, sole. ``own_by``: how the own process was told: pid, name, amount; None where it
    was not. ``comparable``: the dump's pids are those of the engine's tags. ``doubt``: the card's total does not fit the engine's, or
    is less than what the engine holds.
    """

    snapshot: GpuSnapshot
    card: Gpu
    slice: MigDevice | None
    how: str
    total: int | None
    used: int | None
    free: int | None
    own: tuple[GpuProcess, ...] = ()
    others: tuple[GpuProcess, ...] = ()
    siblings: tuple[GpuProcess, ...] = ()
    own_by: str | None = None
    doubt: bool = False

    @property
    def process(self) -> int | None:
        """What the rank's own process holds, where it was told and its use is printed."""
        sizes = [size for row in self.own if (size := held(row)) is not None]
        return sum(sizes) if sizes else None

    @property
    def foreign(self) -> int | None:
        """What all other processes of the list hold; None where none prints a use."""
        sizes = [size for row in (*self.others, *self.siblings) if (size := held(row)) is not None]
        return sum(sizes) if sizes else None


def held(row: GpuProcess) -> int | None:
    """Bytes of a process row; None where the dump prints none."""
    return None if row.used_mib is None else round(row.used_mib * MIB)


def same_total(engine: int, dump: int) -> bool:
    """Whether CUDA's total and a tool's can be the same card's."""
    return -max(BELOW_BYTES, BELOW_SHARE * dump) <= engine - dump <= ABOVE_SHARE * dump


def same_amount(first: int, second: int) -> bool:
    """Whether two readings can be one process's."""
    return abs(first - second) <= max(SAME_BYTES, SAME_SHARE * max(first, second))


def is_display(row: GpuProcess) -> bool:
    """A desktop's process: graphics only, or one of the usual names."""
    return row.type == "G" or (row.name is not None and _DISPLAY.search(row.name) is not None and not _ENGINE_NAME.search(row.name))


def is_unified(card: Gpu) -> bool:
    """Whether the card shares the host's memory: it prints no memory of its own, and its name says why."""
    return card.memory_total_mib is None and card.name is not None and UNIFIED.search(card.name) is not None


def visible_devices(value: str | None) -> tuple[int | str, ...] | None:
    """CUDA_VISIBLE_DEVICES as CUDA reads it: indices, UUIDs or MIG ids, up to the first entry that is none; None where it is not set."""
    if value is None or value.strip().lower() in ("all", "none", "void"):
        return None
    found: list[int | str] = []
    for entry in value.strip().strip("\"'").split(","):
        entry = entry.strip()
        index = natural(entry)
        if index is not None:
            found.append(index)
        elif entry.startswith(("GPU-", "MIG-")):
            found.append(entry)
        else:
            break
    return tuple(found)


def local_index(wanted: Wanted, count: int | None = None) -> int | None:
    """CUDA's index of the GPU; a rank that sees only its own card calls it 0, whatever its rank."""
    own_only = wanted.gpu is None or (wanted.gpu == 0 and wanted.rank)
    index = wanted.rank if own_only else wanted.gpu
    return None if index is not None and count is not None and index >= count else index


def match(snapshot: GpuSnapshot, wanted: Wanted, visible: tuple[int | str, ...] | None = None) -> Match | None:
    """The card of ``wanted`` in ``snapshot`` with its processes; None where the dump does not show it or several fit alike."""
    found = _card(snapshot, wanted, visible)
    if found is None:
        return None
    card, part, how = found
    total = _bytes(part.memory_total_mib if part is not None else card.memory_total_mib)
    used = _bytes(part.memory_used_mib if part is not None else card.memory_used_mib)
    free = _bytes(part.memory_free_mib if part is not None else card.memory_free_mib)
    doubt = (wanted.total is not None and total is not None and not same_total(wanted.total, total)) or not _holds(total, wanted)
    rows = [row for row in snapshot.processes if on_card(row, card, snapshot) and _in_slice(row, part)]
    own, own_by = _own(rows, wanted, all_rows=snapshot.processes)
    rest = [row for row in rows if row not in own]
    siblings = [row for row in rest if row.pid in wanted.family]
    others = [row for row in rest if row.pid not in wanted.family]
    return Match(snapshot, card, part, how, total, used, free, tuple(own), tuple(others), tuple(siblings), own_by, doubt)


def alive(snapshot: GpuSnapshot, wanted: Wanted) -> bool | None:
    """Whether the dump lists a process of the server: True, False (a list of the same pid namespace lacks them), None (cannot be told)."""
    pids = {row.pid for row in snapshot.processes if row.pid is not None}
    if pids & (wanted.family | wanted.pids):
        return True
    known = wanted.family | wanted.pids
    # Containers count from 1; a list without any pid of this size is of another namespace.
    return False if pids and known and min(known) > 1 and max(known) > 1000 else None


# --- cards -------------------------------------------------------------------------------------------------------------------------


def _card(snapshot: GpuSnapshot, wanted: Wanted, visible: tuple[int | str, ...] | None) -> tuple[Gpu, MigDevice | None, str] | None:
    cards = cards_of(snapshot)
    if not cards:
        return None
    by_pid = _by_pid(snapshot, cards, wanted)
    if by_pid is not None:
        return (by_pid, _slice(snapshot, by_pid, wanted, None), "pid")
    index = local_index(wanted)
    entry = visible[index] if visible is not None and index is not None and index < len(visible) else None
    if visible is not None and index is not None and index >= len(visible):
        return None
    if isinstance(entry, str):
        named = _by_uuid(snapshot, cards, entry)
        if named is not None:
            return named
    candidates = [card for card in cards if _fits(card, snapshot, wanted)]
    physical = entry if isinstance(entry, int) else index if entry is None else None
    listed = next((card for card in cards if physical is not None and card.index == physical), None)
    if listed is not None and listed in candidates:
        part = _slice(snapshot, listed, wanted, entry)
        return None if part is None and _sliced(snapshot, listed) else (listed, part, "index")
    if len(cards) == 1 and (physical in (None, 0) or (visible is not None and len(visible) == 1) or wanted.rank in (None, 0)):
        part = _slice(snapshot, cards[0], wanted, entry)
        return None if part is None and _sliced(snapshot, cards[0]) else (cards[0], part, "sole")
    sized = wanted.total is not None or wanted.floor is not None  # CUDA's order is not the tool's: rank 0 is the fastest card
    if sized and len(candidates) == 1 and candidates[0].memory_total_mib is not None:
        return (candidates[0], _slice(snapshot, candidates[0], wanted, entry), "total")
    if listed is not None and not candidates:
        return (listed, None, "index")  # another machine's dump: ``doubt`` says so
    return None


def cards_of(snapshot: GpuSnapshot) -> list[Gpu]:
    """The cards of the dump; where it lists processes alone, one for each card that they name. UUIDs have no order: no index then."""
    if snapshot.gpus:
        return snapshot.gpus
    names = list(dict.fromkeys(row.gpu for row in snapshot.processes))
    found = []
    for name in names:
        index = name if isinstance(name, int) else 0 if len(names) == 1 else None
        uuid = name if isinstance(name, str) and name.startswith(("GPU-", "MIG-")) else None
        bus = name if isinstance(name, str) and uuid is None else None
        found.append(Gpu(index=index, uuid=uuid, bus_id=bus))
    return found


def _by_pid(snapshot: GpuSnapshot, cards: Sequence[Gpu], wanted: Wanted) -> Gpu | None:
    """The card on which the rank's process holds most: others show no more than its context."""
    best: tuple[int, Gpu] | None = None
    for card in cards:
        size = sum(held(row) or 1 for row in snapshot.processes if row.pid in wanted.pids and on_card(row, card, snapshot))
        if size and (best is None or size > best[0]):
            best = (size, card)
    return best[1] if best is not None else None


def _by_uuid(snapshot: GpuSnapshot, cards: Sequence[Gpu], entry: str) -> tuple[Gpu, MigDevice | None, str] | None:
    """CUDA accepts a UUID that is cut, as long as it is unique; before 470 a slice is ``MIG-GPU-<uuid>/<gi>/<ci>``."""
    old = re.fullmatch(r"MIG-(GPU-[0-9a-fA-F-]+)/(\d+)/(\d+)", entry)
    if old is not None:
        for card in cards:
            if card.uuid is not None and card.uuid.startswith(old[1]):
                for part in snapshot.mig_devices:
                    if part.gpu == card.index and part.gpu_instance == int(old[2]) and part.compute_instance == int(old[3]):
                        return (card, part, "uuid")
        return None
    parts = [part for part in snapshot.mig_devices if part.uuid is not None and part.uuid.startswith(entry)]
    if len(parts) == 1:
        owner = next((card for card in cards if card.index == parts[0].gpu), None)
        return (owner, parts[0], "uuid") if owner is not None else None
    named = [card for card in cards if card.uuid is not None and card.uuid.startswith(entry)]
    return (named[0], None, "uuid") if len(named) == 1 else None


def _fits(card: Gpu, snapshot: GpuSnapshot, wanted: Wanted) -> bool:
    """Whether the engine's total can be this card's, or that of a slice of it, and what it holds lie there.

    Without these figures nothing speaks against it.
    """
    if wanted.total is None:
        return _holds(_bytes(card.memory_total_mib), wanted)
    if _slices(snapshot, card):
        return any(_slice_fits(part, wanted.total) for part in _slices(snapshot, card))
    total = _bytes(card.memory_total_mib)
    return total is None or same_total(wanted.total, total)


def _holds(total: int | None, wanted: Wanted) -> bool:
    """Whether weights and pool can lie on a card of this size."""
    return total is None or wanted.floor is None or wanted.floor <= total + SAME_BYTES


def _slices(snapshot: GpuSnapshot, card: Gpu) -> list[MigDevice]:
    return [part for part in snapshot.mig_devices if part.gpu == card.index and part.memory_total_mib is not None]


def _sliced(snapshot: GpuSnapshot, card: Gpu) -> bool:
    return len(_slices(snapshot, card)) > 1


def _slice_fits(part: MigDevice, total: int) -> bool:
    size = _bytes(part.memory_total_mib)
    return size is not None and same_total(total, size)


def _slice(snapshot: GpuSnapshot, card: Gpu, wanted: Wanted, entry: int | str | None) -> MigDevice | None:
    """The one slice of ``card`` that fits: by the rank's process, the total, what the engine holds, or because it is the only one."""
    parts = _slices(snapshot, card)
    if not parts:
        return None
    mine = [row for row in snapshot.processes if row.pid in wanted.pids and row.gpu_instance is not None]
    if mine:
        return next((part for part in parts if part.gpu_instance == mine[0].gpu_instance), None)
    if wanted.total is not None:
        parts = [part for part in parts if _slice_fits(part, wanted.total)]
    least = wanted.process if wanted.process is not None else wanted.floor
    if len(parts) > 1 and least is not None:
        parts = [part for part in parts if (used := _bytes(part.memory_used_mib)) is not None and used >= least - SAME_BYTES]
    return parts[0] if len(parts) == 1 else None


# --- processes ---------------------------------------------------------------------------------------------------------------------


def on_card(row: GpuProcess, card: Gpu, snapshot: GpuSnapshot) -> bool:
    """Whether the row's process is on ``card``; a list that names no card belongs to a dump of one."""
    if row.gpu is None:
        return len(snapshot.gpus) <= 1
    if isinstance(row.gpu, int):
        return row.gpu == card.index
    return row.gpu in (card.uuid, card.bus_id) or (card.uuid is None and card.bus_id is None and len(snapshot.gpus) == 1)


def _in_slice(row: GpuProcess, part: MigDevice | None) -> bool:
    return part is None or row.gpu_instance is None or row.gpu_instance == part.gpu_instance


def _own(rows: Sequence[GpuProcess], wanted: Wanted, all_rows: Iterable[GpuProcess]) -> tuple[list[GpuProcess], str | None]:
    """The rank's own rows, and how they were told. By name or amount only where the dump's pids are of another namespace."""
    mine = [row for row in rows if row.pid in wanted.pids]
    if mine:
        return mine, "pid"
    if any(row.pid in wanted.family for row in all_rows):
        return [], None
    named = [row for row in rows if _rank_of(row) is not None and _rank_of(row) == wanted.rank]
    if len(named) == 1 and _plausible(named[0], wanted):
        return named, "name"
    if wanted.process is not None:
        alike = [row for row in rows if (size := held(row)) is not None and same_amount(size, wanted.process)]
        return (alike, "amount") if len(alike) == 1 else ([], None)
    if wanted.floor is not None and wanted.floor > CONTEXT_BYTES:
        large = [row for row in rows if (size := held(row)) is not None and size >= wanted.floor - SAME_BYTES]
        return (large, "amount") if len(large) == 1 else ([], None)
    return [], None


def _rank_of(row: GpuProcess) -> int | None:
    """The rank that a process's name states, where it states tensor parallelism alone (others need sizes that a name lacks)."""
    matched = _RANK_NAME.search(row.name or "")
    if matched is None or matched["dp"] or matched["pp"]:
        return None
    number = matched["tp"] or matched["old"]
    return int(number) if number else None


def _plausible(row: GpuProcess, wanted: Wanted) -> bool:
    size = held(row)
    expected = wanted.process if wanted.process is not None else wanted.floor
    if size is None or expected is None:
        return True
    return same_amount(size, expected) if wanted.process is not None else size >= expected - SAME_BYTES


def _bytes(mebibytes: float | None) -> int | None:
    return None if mebibytes is None else round(mebibytes * MIB)
