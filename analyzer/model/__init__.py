"""The nouns of the product. Everything else passes these on; see DESIGN.md for what each means."""

from analyzer.model.facts import Fact, Series, Source, Value
from analyzer.model.finding import (
    Action,
    Change,
    Confidence,
    EnvChange,
    Finding,
    Fix,
    FlagChange,
    NotThis,
    OptionChange,
    Severity,
    Window,
)
from analyzer.model.gpu import Gpu, GpuProcess, GpuSnapshot, MigDevice, VirtualGpu
from analyzer.model.ledger import Basis, Ledger, LedgerLine
from analyzer.model.report import STAGES, AttemptInfo, EngineInfo, InputInfo, Outcome, Report, Segment, Setting, State, TimelineStep
from analyzer.model.text import LANGUAGES, Text

__all__ = [
    "LANGUAGES",
    "STAGES",
    "Action",
    "AttemptInfo",
    "Basis",
    "Change",
    "Confidence",
    "EngineInfo",
    "EnvChange",
    "Fact",
    "Finding",
    "Fix",
    "FlagChange",
    "Gpu",
    "GpuProcess",
    "GpuSnapshot",
    "InputInfo",
    "Ledger",
    "LedgerLine",
    "MigDevice",
    "NotThis",
    "OptionChange",
    "Outcome",
    "Report",
    "Segment",
    "Series",
    "Setting",
    "Severity",
    "Source",
    "State",
    "Text",
    "TimelineStep",
    "Value",
    "VirtualGpu",
    "Window",
]
