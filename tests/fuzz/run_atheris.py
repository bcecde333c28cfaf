"""A bounded coverage-guided run: python -m tests.fuzz.run_atheris TARGET SECONDS SEEDS_FOLDER."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(
    include=["analyzer.intake", "analyzer.readers", "analyzer.patterns", "analyzer.facts", "analyzer.diagnosis"]
):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name, seconds, seeds = sys.argv[1:4]
    target = TARGETS[name]
    for warm in (b"", b"INFO 01-01 00:00:00 line\n"):
        target(warm)  # the library is loaded before the time runs
    options = [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-seed=1", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, seeds], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
