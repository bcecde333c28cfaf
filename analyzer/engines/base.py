"""What diagnosis asks of an engine, answered as it holds for every one; an engine's own class says what is different about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analyzer.engines import device, settings
from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.layout import memory_layout, pool_note
from analyzer.engines.lines import Lines
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Action, Change, Fix, FlagChange, Ledger, Source, Text, Window
from analyzer.model.versions import Range


def leave_the_system_its_share(case: Case) -> Computed:
    """For a server whose engine the inputs do not tell: the setting of each that takes a share of the memory.

    An engine with a class computes its own. 0.6 to 0.7 is usual where CPU and GPU share one memory (claims.md).
    """
    action = Text(
        "vLLM: --gpu-memory-utilization 0.6 to 0.7; SGLang: a lower --mem-fraction-static; llama.cpp and Ollama: a shorter context",
        "vLLM：--gpu-memory-utilization 设为 0.6 到 0.7；SGLang：降低 --mem-fraction-static；llama.cpp 和 Ollama：缩短上下文",
    )
    return Computed((Action(action),))


class Engine:
    """One without a class of its own: the card at the moment of failure, and PyTorch's sentence."""

    #: The fixes whose numbers are computed, each with its arithmetic.
    solvers: Mapping[str, Callable[[Case], Computed | None]] = {"leave_the_system_its_share": leave_the_system_its_share}

    def ledgers(self, case: Case) -> list[Ledger]:
        """The ledgers of the attempt's GPUs at its end: here one for each GPU that an out-of-memory sentence names."""
        found = []
        for rank, gpu, event in device.sentence_events(case):
            lines = Lines()
            facts = case.view.event_facts(event)
            device.out_of_memory(lines, facts, device.dump_names(case))
            device.name_others(case, lines, gpu, rank, [fact for fact in facts if fact.name == "process.used"])
            device.balance(lines)
            if lines:
                found.append(lines.ledger(case.view.attempt.index, gpu if gpu is not None else rank, rank, case.moment))
        return found

    def compute(self, fix: str, case: Case) -> Computed | None:
        """The numbers of the fix ``fix``; None where it does not apply or would not fit."""
        solver = self.solvers.get(fix)
        return solver(case) if solver is not None else None

    def valid(self, changes: tuple[Change, ...], view: View) -> bool:
        """Whether every flag exists in the versions that are possible. Without a table of flags, only changes that name none are sure."""
        return not any(isinstance(change, FlagChange) for change in changes)

    def versions(self, changes: tuple[Change, ...], view: View) -> str | None:
        """The versions in which the flags of ``changes`` exist, as a PEP 440 range; None: no bound is known."""
        return None

    def rewrite(self, changes: tuple[Change, ...], view: View) -> str | None:
        """The user's own command with ``changes``, where the inputs hold it; not done where the flags are not known."""
        return None

    def default_utilization(self, view: View) -> float | None:
        """The budget's share when none is given, where all possible versions agree."""
        return None

    def possible_versions(self, view: View) -> Range:
        """The versions that are possible: the stated one, else what the wordings leave."""
        return view.versions

    def window(self, case: Case, given: Sequence[Fix]) -> Window | None:
        """The feasible window of the cause's main setting; ``given``: the report's fixes, to name what opens an empty one."""
        return None

    def refine(self, case: Case) -> Refinement | None:
        """A truer or finer verdict that several of the engine's lines prove together, or lines that belong to the proof; None: as it is."""
        return None

    def notes(self, case: Case) -> Sequence[tuple[str, list[Source]]]:
        """What is worth explaining about a running server: causes of the family ``healthy`` with their lines."""
        return ()

    def need(self, name: str, view: View) -> str:
        """The need ``name``, or the one that asks the same of this engine's devices."""
        return name

    def extra_figures(self, case: Case) -> Mapping[str, str | Text]:
        """Further figures for sentences: derived ones, by placeholder name."""
        return {}


class Server(Engine):
    """One whose settings are known, in a small table."""

    #: Flag -> the versions that have it ("" where all that were looked at do).
    flags: Mapping[str, str]

    def valid(self, changes: tuple[Change, ...], view: View) -> bool:
        return settings.valid(self.flags, changes, view)

    def versions(self, changes: tuple[Change, ...], view: View) -> str | None:
        return settings.versions(self.flags, changes)

    def rewrite(self, changes: tuple[Change, ...], view: View) -> str | None:
        return settings.rewritten(changes, view)

    def possible_versions(self, view: View) -> Range:
        return settings.possible(view)

    def extra_figures(self, case: Case) -> Mapping[str, str | Text]:
        return memory_layout(case)


class PoolServer(Server):
    """One whose pool keeps its memory whatever the load."""

    def notes(self, case: Case) -> Sequence[tuple[str, list[Source]]]:
        return pool_note(case)


ENGINE = Engine()
