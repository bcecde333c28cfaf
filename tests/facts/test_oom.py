"""Which process of an out-of-memory sentence is the failing one, and who the others are."""

from __future__ import annotations

import pytest

from tests.logs import facts, oom, raised, served, told

#: As PyTorch 2.1 to 2.2 print it: a list of processes and nothing that says which one it is itself.
LISTED = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. "
    "GPU 0 has a total capacty of 23.68 GiB of which 541.19 MiB is free. {listed} "
    "Of the allocated memory 20.10 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated."
)
OWN = "Process 4477 has 22.10 GiB memory in use."
OTHER = "Process 900 has 1.05 GiB memory in use."
SMALL = "Process 901 has 300.00 MiB memory in use."


@pytest.mark.parametrize(
    ("tag", "listed", "own"),
    [
        ("(EngineCore_0 pid=4477)", f"{OWN} {OTHER}", (22.10, 4477)),
        ("(EngineCore_0 pid=4477)", f"{OTHER} {OWN} {SMALL}", (22.10, 4477)),
        ("(EngineCore_0 pid=900)", f"{OTHER} {OWN}", (1.05, 900)),
        # in a container the list holds the host's pids: the only one that holds what PyTorch holds is the own one
        ("(EngineCore_0 pid=7)", f"{OTHER} {OWN} {SMALL}", (22.10, 4477)),
        ("", f"{OWN} {OTHER}", (22.10, 4477)),
        # none or two of them hold that much: which one it is stays open
        ("(EngineCore_0 pid=7)", f"{OTHER} {SMALL}", None),
        ("", f"{OWN} Process 5000 has 21.00 GiB memory in use.", None),
        ("", "", None),
    ],
)
def test_the_own_process_of_a_list(tag: str, listed: str, own: tuple[float, int] | None) -> None:
    report = told([f"{tag} {LISTED.format(listed=listed)}".strip()])
    assert [(fact.value, fact.pid) for fact in facts(report, "oom.process_in_use")] == ([] if own is None else [own])


def test_what_the_sentence_says_itself_stands() -> None:
    report = told([*served(), *raised(oom(own="22.10 GiB", total="23.68 GiB", allocated="20.00 GiB", others=OTHER))])
    assert [(fact.value, fact.pid) for fact in facts(report, "oom.process_in_use")] == [(22.10, None)]
    assert [(fact.value, fact.unit, fact.pid) for fact in facts(report, "process.used")] == [(1.05, "GiB", 900)]
    (ledger,) = report.ledgers
    assert ledger.get("other_processes") == round(1.05 * 2**30)
