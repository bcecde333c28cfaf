"""What is to be said about dumps beside a log: when they were taken, where that matters, and where they contradict the log."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from analyzer.diagnosis.verdict import Verdict
from analyzer.engines import dumps
from analyzer.engines.moment import When, dump_time
from analyzer.engines.reconcile import SAME_BYTES, cards_of, held, is_unified, on_card, same_total
from analyzer.model import Gpu, GpuProcess, GpuSnapshot, State, Text
from analyzer.model.units import MIB, human, natural

if TYPE_CHECKING:
    from analyzer.engines.case import Case
    from analyzer.facts.view import View

#: Cards that a sentence describes; all are in the tables.
CARDS_SAID = 4
#: Use of a card that no listed process explains: below it are contexts and what the driver keeps.
UNNAMED = 600 * MIB
#: Families in which the moment of a dump decides what its figures mean.
MEMORY = ("cuda_oom", "startup", "kv_cache", "unified_memory", "engine.version_bug")


def remarks(case: Case, verdict: Verdict) -> list[Text]:
    """Sentences on the last dump that shows cards or processes: another card than the log's, another time than the failure's."""
    if not case.view.snapshots or case.view.engine is None:
        return []
    ledger = case.ledger
    gpu, rank = (ledger.gpu, ledger.rank) if ledger is not None else (None, case.rank if case.rank is not None else 0)
    total = next((size for name in ("device.total", "oom.total") if (size := case.view.bytes(name, rank)) is not None), None)
    found = list(dumps.dumps(case, gpu, rank))
    strange = _other_machine(case, total, found)
    if strange is not None:
        return [strange]
    if verdict.state is not State.FAILED or verdict.cause is None or not verdict.cause.startswith(MEMORY) or not found:
        return []
    near = next((dump for dump in found if dump.moment.when is When.DURING), None)
    said = [] if near is not None else _when(found[-1])
    return [*said, *_more_than_taken(case, found[-1], gpu, rank)]


#: The largest process took the memory, where it holds this many times what the killed one held.
CULPRIT_TIMES = 2


def culprit(view: View, verdict: Verdict) -> list[Text]:
    """Who held most of the host's memory when somebody was killed for it, where the kernel or Ray listed the processes."""
    holders = [holder for reading in view.readings for holder in reading.holders]
    if verdict.state is not State.FAILED or not (verdict.cause or "").startswith("host_oom") or not holders:
        return []
    top = max(holders, key=lambda holder: holder.bytes)
    kills = [event.groups.get("pid", "") for event in view.attempt.all_events() if "oom" in event.pattern.id]
    victims = {natural(pid) for pid in kills} - {None}
    killed = next((holder for holder in holders if holder.pid in victims), None)
    sized = [fact for fact in (*view.facts, *view.documents) if fact.name == "process.rss" and fact.pid in victims and fact.bytes]
    size = killed.bytes if killed is not None else sized[-1].bytes if sized else None
    who = f"{top.pid} ({top.name})"
    if top.pid in victims:
        return [
            Text(
                f"The killed process {who} was the largest in the list: {human(top.bytes)}.",
                f"被杀的进程 {who} 正是列表中占用最多的：{human(top.bytes)}。",
            )
        ]
    if victims and size is not None and top.bytes < CULPRIT_TIMES * size:
        return []
    less, less_zh = (f", the killed one {human(size)}", f"，被杀的进程只占 {human(size)}") if size is not None else ("", "")
    return [
        Text(
            f"The largest process at that moment was another one, {who} with {human(top.bytes)}{less}: that is where the memory went.",
            f"当时占用最多的是另一个进程 {who}，占 {human(top.bytes)}{less_zh}：内存是被它用掉的。",
        )
    ]


def _other_machine(case: Case, total: int | None, found: list[dumps.Dump]) -> Text | None:
    """No card of any dump has the total that the log states."""
    if total is None or any(not dump.match.doubt for dump in found):
        return None
    sizes = {
        round(size * MIB)
        for snapshot in case.view.snapshots
        for size in (*(card.memory_total_mib for card in cards_of(snapshot)), *(part.memory_total_mib for part in snapshot.mig_devices))
        if size is not None
    }
    if not sizes or any(same_total(total, size) for size in sizes):
        return None
    listed = ", ".join(human(size) for size in sorted(sizes))
    name = case.view.snapshots[-1].source.input
    return Text(
        f"{name} contradicts the log: the engine's GPU has {human(total)}, the dump shows {listed}. It is of another card or machine, "
        "and its figures are left out of the ledger.",
        f"{name} 与日志矛盾：引擎所用 GPU 为 {human(total)}，而该输出显示 {listed}。它来自另一张卡或另一台机器，其数字未计入账目。",
    )


def _when(dump: dumps.Dump) -> list[Text]:
    name, moment = dump.snapshot.source.input, dump.moment
    if moment.when is When.AFTER and moment.distance is not None:
        en, zh = _span(moment.distance)
        return [
            Text(
                f"{name} was taken {en} after the failure, by the clocks of both: it shows what was left then, not the moment of failure.",
                f"按两边的时钟，{name} 是在失败之后 {zh}采集的：它显示的是当时的残留，而不是失败瞬间。",
            )
        ]
    if moment.when is When.BEFORE and moment.distance is not None:
        en, zh = _span(moment.distance)
        return [
            Text(
                f"{name} was taken {en} before the first dated line of this start: it shows who was on the GPU already.",
                f"{name} 采集于本次启动第一条带时间的日志之前 {zh}：它显示当时 GPU 上已有的进程。",
            )
        ]
    if dump_time(dump.snapshot.time) is None:
        return [
            Text(
                f"{name} has no date that could be held against the log's: whether it is from before, during or after the failure "
                "cannot be told.",
                f"{name} 没有可与日志对照的日期，无法判断它采集于失败之前、当时还是之后。",
            )
        ]
    return [
        Text(
            f"By the clocks {name} is from during the run, but the card in it is too empty for that: the clocks may be of different time "
            "zones. When it was taken cannot be told.",
            f"按时钟 {name} 应采集于运行期间，但其中的显存占用过低，两边时区可能不同，无法判断采集时刻。",
        )
    ]


def _more_than_taken(case: Case, dump: dumps.Dump, gpu: int | None, rank: int | None) -> list[Text]:
    """The dump names more memory of others than the start found missing: it is of another time."""
    ledger = case.ledger
    total, free = (ledger.get("total"), case.view.bytes("device.free_at_start", rank)) if ledger is not None else (None, None)
    size = sum(held(row) or 0 for row in dump.match.others)
    if total is None or free is None or size <= total - free + 2 * SAME_BYTES:
        return []
    return [
        Text(
            f"The log contradicts {dump.snapshot.source.input}: {human(total - free)} were in use when the engine looked, the dump names "
            f"{human(size)} of other processes. They came or grew later.",
            f"日志与 {dump.snapshot.source.input} 矛盾：引擎检查时已用 {human(total - free)}，而该输出中其他进程共占 {human(size)}，"
            "它们是之后才出现或增长的。",
        )
    ]


def _span(distance: timedelta) -> tuple[str, str]:
    seconds = int(distance.total_seconds())
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h", f"{days} 天 {hours} 小时"
    if hours:
        return f"{hours} h {minutes} min", f"{hours} 小时 {minutes} 分"
    if minutes:
        return f"{minutes} min {left} s", f"{minutes} 分 {left} 秒"
    return f"{left} s", f"{left} 秒"


def joined(text: Text, sentences: list[Text]) -> Text:
    """``text`` and the sentences after it."""
    return Text(" ".join([text.en, *(sentence.en for sentence in sentences)]), "".join([text.zh, *(sentence.zh for sentence in sentences)]))


def alone(view: View) -> Text | None:
    """What the last dump shows, card by card, where the inputs hold dumps and no server's log; None otherwise."""
    snapshots = [snapshot for snapshot in view.snapshots if snapshot.gpus or snapshot.processes]
    if view.engine is not None or view.attempt.patterns or not snapshots:
        return None
    last = snapshots[-1]
    cards = [
        card
        for card in cards_of(last)
        if card.memory_used_mib is not None or card.vram_used_gb is not None or any(on_card(row, card, last) for row in last.processes)
    ]
    said = [_card(last, card) for card in cards[:CARDS_SAID]]
    hidden = [card for card in cards if (card.memory_used_mib or 0) * MIB >= UNNAMED and not _sized(last, card)]
    more = len(cards) - len(said)
    if more > 0:
        said.append(Text(f"{more} more cards are in the table.", f"其余 {more} 张卡见表。"))
    if hidden:
        said.append(
            Text(
                "Cards in use whose list names nobody: run it on the host as root; a container sees only its own processes, WSL none.",
                "显存被占用却没有列出进程：请在宿主机上以 root 执行；容器只能看到自己的进程，WSL 则完全看不到。",
            )
        )
    begin = Text(
        "There is no server's log among the inputs, only what the GPU tool shows: no outcome can be told from it.",
        "输入中没有服务日志，只有 GPU 工具的输出，无法据此判断运行结果。",
    )
    return joined(begin, said)


def _sized(snapshot: GpuSnapshot, card: Gpu) -> list[tuple[int, GpuProcess]]:
    """(bytes, row) of the processes on the card that print a use."""
    return [(size, row) for row in snapshot.processes if on_card(row, card, snapshot) and (size := held(row)) is not None]


def _card(snapshot: GpuSnapshot, card: Gpu) -> Text:
    """Use of one card and who holds it."""
    sized = sorted(_sized(snapshot, card), key=lambda item: -item[0])
    used = None if card.memory_used_mib is None else round(card.memory_used_mib * MIB)
    index = card.index if card.index is not None else card.uuid or card.bus_id or "?"
    en, zh = f"GPU {index}:", f"GPU {index}："
    if used is not None:
        total = "" if card.memory_total_mib is None else f" of {human(round(card.memory_total_mib * MIB))}"
        total_zh = "" if card.memory_total_mib is None else f"（共 {human(round(card.memory_total_mib * MIB))}）"
        en, zh = f"{en} {human(used)}{total} in use", f"{zh}已用 {human(used)}{total_zh}"
    elif card.vram_used_gb is not None:
        en, zh = (
            f"{en} {card.vram_used_gb:g} of {card.vram_total_gb:g} GB in use",
            f"{zh}已用 {card.vram_used_gb:g} GB（共 {card.vram_total_gb:g} GB）",
        )
    elif is_unified(card):
        en, zh = f"{en} it shares the host's memory, which `free -m` shows", f"{zh}与主机共用内存，总量见 `free -m`"
    else:
        en, zh = f"{en} the dump prints no total use", f"{zh}该输出没有总占用"
    if sized:
        listed = ", ".join(f"{row.pid}{f' ({row.name})' if row.name else ''} {human(size)}" for size, row in sized[:3])
        en, zh = f"{en}; held by process {listed}", f"{zh}；占用者：进程 {listed}"
        rest = None if used is None else used - sum(size for size, _ in sized)
        if rest is not None and rest >= UNNAMED:
            en = f"{en}; {human(rest)} belong to nobody in the list (another container, a killed process, contexts)"
            zh = f"{zh}；另有 {human(rest)} 不属于列表中的任何进程（其他容器、已被杀的进程或上下文）"
    return Text(f"{en}.", f"{zh}。")
