"""Renders nvidia-smi's table in the layout of every generation (widths: reference/nvidia-smi.md, 2), and damages it as pastes are."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from analyzer.intake.lines import clean
from analyzer.readers import Page, Reading, read_page


@dataclass(frozen=True)
class Layout:
    """One generation: widths of the three cells between the bars, of a card's name, and what its rows have."""

    name: str
    cells: tuple[int, int, int]
    name_width: int
    mig_line: bool
    instances: bool  # GI and CI in the process table
    pid_width: int
    banner: str


def _banner(version: str, driver: str, cuda: str) -> str:
    return f"NVIDIA-SMI {version:<12} Driver Version: {driver:<12} CUDA Version: {cuda}"


LAYOUTS = (
    Layout("367", (31, 22, 22), 18, mig_line=False, instances=False, pid_width=5, banner="old"),
    Layout("418", (31, 22, 22), 18, mig_line=False, instances=False, pid_width=9, banner="plain"),
    Layout("470", (31, 22, 22), 18, mig_line=True, instances=True, pid_width=9, banner="plain"),
    Layout("535", (41, 22, 22), 27, mig_line=True, instances=True, pid_width=9, banner="plain"),
    Layout("550", (41, 24, 22), 27, mig_line=True, instances=True, pid_width=9, banner="plain"),
    Layout("580", (41, 24, 22), 27, mig_line=True, instances=True, pid_width=15, banner="plain"),
    Layout("610", (41, 24, 22), 27, mig_line=True, instances=True, pid_width=15, banner="kmd"),
)


@dataclass
class Card:
    """What one row says; None is printed as the tool prints what is not available."""

    index: int
    name: str
    bus: str
    used: int | None
    total: int | None
    util: int | None
    state: str = "Off"
    display: str = "Off"
    ecc: str = "N/A"
    mig: str = "N/A"
    fan: int | None = None
    memory_word: str = "Not Supported"


@dataclass
class Proc:
    """One row of the process table."""

    gpu: int
    pid: int
    kind: str
    name: str
    used: int | None


@dataclass
class Machine:
    """All of one dump."""

    driver: str
    cuda: str
    cards: list[Card] = field(default_factory=list)
    processes: list[Proc] = field(default_factory=list)


def shown_name(name: str, layout: Layout) -> str:
    """The name as the tool cuts it."""
    return name if len(name) <= layout.name_width else name[: layout.name_width - 3] + "..."


def render(machine: Machine, layout: Layout) -> list[str]:
    """The dump's lines, every one of the same width."""
    left, middle, right = layout.cells
    width = left + middle + right + 2
    rule = "+" + "-" * width + "+"
    row_rule = f"+{'-' * left}+{'-' * middle}+{'-' * right}+"

    def cells(a: str, b: str, c: str) -> str:
        assert (len(a), len(b), len(c)) == (left, middle, right), (a, b, c)
        return f"|{a}|{b}|{c}|"

    def line(text: str) -> str:
        assert len(text) <= width
        return f"|{text:<{width}}|"

    banners = {
        "old": f" NVIDIA-SMI {machine.driver:<22} Driver Version: {machine.driver}",
        "plain": " " + _banner(machine.driver, machine.driver, machine.cuda),
        "kmd": f" NVIDIA-SMI {machine.driver:<12} KMD Version: {machine.driver:<12} CUDA UMD Version: {machine.cuda}",
    }
    lines = ["Thu Oct  8 09:12:05 2026       ", rule, line(banners[layout.banner]), row_rule.replace("+", "|", 1)]
    lines.append(cells(" GPU  Name".ljust(left - 13) + "Persistence-M", " Bus-Id".ljust(middle - 7) + "Disp.A ", " Volatile Uncorr. ECC "))
    lines.append(cells(" Fan  Temp  Perf".ljust(left - 13) + "Pwr:Usage/Cap", "Memory-Usage ".rjust(middle), " GPU-Util  Compute M. "))
    if layout.mig_line:
        lines.append(cells(" " * left, " " * middle, "MIG M. ".rjust(right)))
    lines.append(row_rule.replace("-", "=").replace("+", "|", 1)[:-1] + "|")
    for card in machine.cards:
        head = f"{card.index:>4}  {shown_name(card.name, layout):<{layout.name_width}}"
        lines.append(
            cells(f"{head}{card.state:>{left - len(head) - 2}}  ", f"{card.bus} {card.display:>3} ".rjust(middle), f"{card.ecc:>21} ")
        )
        fan = "N/A" if card.fan is None else f"{card.fan}%"
        power = f"{fan:>4}   44C    P2".ljust(left - 14) + "  71W /  450W "
        if card.used is None or card.total is None:
            memory = f" {card.memory_word:<{middle - 1}}"
        else:
            memory = f"{card.used}MiB / {card.total}MiB ".rjust(middle)
        util = "N/A" if card.util is None else f"{card.util}%"
        lines.append(cells(power, memory, f"{util:>8}      Default "))
        if layout.mig_line:
            lines.append(cells(" " * left, " " * middle, f"{card.mig:>21} "))
        lines.append(row_rule)
    lines += ["", rule, line(" Processes:")]
    instances = "   GI   CI" if layout.instances else ""
    head = f"  GPU{instances}{'PID':>{layout.pid_width + 1}}   Type   Process name"
    lines += [line(head.ljust(width - 11) + "GPU Memory"), line(" " * (width - 11) + "Usage"), "|" + "=" * width + "|"]
    for process in machine.processes:
        ids = "   N/A  N/A" if layout.instances else ""
        used = "N/A     " if process.used is None else f"{process.used}MiB"
        start = f"{process.gpu:>5}{ids}{process.pid:>{layout.pid_width + 1}}{process.kind:>7}   "
        room = width - len(start) - 12
        name = process.name if len(process.name) <= room else "..." + process.name[-(room - 3) :]
        lines.append(line(f"{start}{name:<{room}}{used:>11} "))
    if not machine.processes:
        lines.append(line("  No running processes found"))
    return [*lines, rule]


# --- damages ---------------------------------------------------------------------------------------------------------------------


def wrap(width: int) -> Callable[[list[str]], list[str]]:
    """A terminal or mail gateway that breaks at ``width``."""
    return lambda lines: [line[start : start + width] for line in lines for start in range(0, max(len(line), 1), width)]


def wrap_trimmed(width: int) -> Callable[[list[str]], list[str]]:
    """The same, and blanks at the ends of lines are lost."""
    return lambda lines: [line.rstrip() for line in wrap(width)(lines)]


def each(change: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    """A damage that is done to every line."""
    return lambda lines: [change(line) for line in lines]


def to_tabs(line: str) -> str:
    """A copy out of a web page: borders gone, runs of blanks turned into tabs."""
    return re.sub(r"(?<=\S) {2,}(?=\S)", "\t", re.sub(r"\|", "  ", line).strip())


DAMAGES: dict[str, Callable[[list[str]], list[str]]] = {
    "none": lambda lines: lines,
    "trailing blanks lost": each(str.rstrip),
    "blanks collapsed": each(lambda line: re.sub(r" +", " ", line)),
    "all blanks before lines lost": each(str.lstrip),
    "left borders lost": each(lambda line: line[1:] if line[:1] in "|+" else line),
    "right borders lost": each(lambda line: line[:-1].rstrip() if line[-1:] in ("|", "+") else line),
    "borders lost, tabs": lambda lines: [to_tabs(line) for line in lines if not re.fullmatch(r"[-+=| ]+", line) or not line.strip("+-=|")],
    "rules lost": lambda lines: [line for line in lines if not re.fullmatch(r"[-+=|]+", line)],
    "empty lines lost": lambda lines: [line for line in lines if line.strip()],
    "double spaced": lambda lines: [part for line in lines for part in (line, "")],
    "mail quoted": each(lambda line: f"> {line}".rstrip()),
    "quoted twice": each(lambda line: f">> {line}".rstrip()),
    "indented": each(lambda line: f"    {line}"),
    "fenced": lambda lines: ["some words", "```", *lines, "```", "more words"],
    "box characters": each(lambda line: line.replace("|", "│")),
    "escaped bars": each(lambda line: line.replace("|", "\\|")),
    "html": each(lambda line: "&gt; " + line.replace("|", "&#124;")),
    "docker time stamps": each(lambda line: f"2026-10-08T09:12:05.123456789Z {line}"),
    "journald": each(lambda line: f"Oct 08 09:12:05 node7 vllm[812]: {line}"),
    "compose": each(lambda line: f"vllm-1  | {line}"),
    "engine prefix": each(lambda line: f"(EngineCore_DP0 pid=412) {line}"),
    "own prefix": lambda lines: [f"{number:04d} node-{number % 3}: {line}" for number, line in enumerate(lines)],
    "inside a log": lambda lines: [
        "INFO 01-15 10:22:31 [api_server.py:12] vLLM API server version 0.9.1",
        *lines,
        "ERROR 01-15 10:22:39 x",
    ],
    **{f"wrapped at {width}": wrap(width) for width in (40, 42, 43, 60, 64, 67, 68, 72, 76, 80, 90)},
    **{f"wrapped at {width}, trimmed": wrap_trimmed(width) for width in (60, 72, 80)},
    "wrapped and quoted": lambda lines: [f"> {line}" for line in wrap(72)(lines)],
    "cut at the right": each(lambda line: line[:60]),
    "cut below": lambda lines: lines[: len(lines) * 2 // 3],
    "cut above": lambda lines: lines[6:],
}
#: Damages that take figures away: there a reader may refuse, and still never give another figure.
LOSSY = frozenset({"cut at the right", "cut below", "cut above", *(f"wrapped at {width}" for width in (40, 42, 43, 67, 68, 90))})


def read(lines: list[str], *, whole: bool = True) -> list[Reading]:
    """What the readers make of ``lines``."""
    return read_page(Page("paste", [clean(line) for line in lines], whole=whole))
