"""The command line. Everything but the option parser is imported by the command that needs it: ``analyze`` has to start at once.

Exit status of ``analyze``: 0 healthy or degraded, 1 failed (cause known or not), 2 the inputs end before anything is decided,
64 misuse or an input that cannot be read.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from analyzer import __version__
from analyzer.cli_errors import LANGUAGES, MISUSE, default_language, fail, unusable

FORMATS = ("text", "json", "markdown", "html")
_EXIT = {"healthy": 0, "degraded": 0, "failed": 1, "unknown": 2}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(MISUSE, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit status."""
    options = _parser(sys.argv[1:] if argv is None else argv).parse_args(argv)
    try:
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except BrokenPipeError:
        # The reader went away (`| head`): no traceback.
        _drop_output()
        return 0
    except OSError as error:
        # What opens inputs answers for them; here it is the output that cannot be written (a full disk).
        _drop_output()
        return fail("{name}: {reason}", name=error.filename or "output", reason=error.strerror or error)
    except KeyboardInterrupt:
        return 130


def _drop_output() -> None:
    """What is still buffered goes nowhere, so that the interpreter's own flush at the end does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(argv: Sequence[str] = ()) -> _Parser:
    """The parser of ``argv``. Making that of every command takes as long as an analysis: ``analyze`` does without the others."""
    about = "Reads the text of an LLM server and answers with cause, memory ledger and computed fixes."
    parser = _Parser(prog="vramledger", description=about)
    parser.add_argument("--version", action="version", version=f"vramledger {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser, prog="vramledger")

    analyze = commands.add_parser("analyze", help="analyse files, or standard input where none is named")
    analyze.add_argument("files", nargs="*", metavar="FILE", help="logs, GPU dumps, launch commands of one run; - is standard input")
    analyze.add_argument("--format", choices=FORMATS, default="text")
    said_in = "language of the sentences (default: VRAMLEDGER_LANG, else en)"
    analyze.add_argument("--lang", choices=LANGUAGES, default=default_language(), help=said_in)
    own = "a folder of your own patterns, beside the library"
    analyze.add_argument("--patterns", action="append", default=[], metavar="DIR", type=Path, help=own)
    analyze.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    analyze.set_defaults(run=_analyze)
    if argv[:1] != ["analyze"]:
        _other_commands(commands)
    return parser


def _other_commands(commands: Any) -> None:
    from analyzer import cli_team

    redact = commands.add_parser("redact", help="print a text without its secrets and personal data")
    redact.add_argument("file", nargs="?", default="-", metavar="FILE")
    redact.set_defaults(run=_redact)

    serve = commands.add_parser("serve", help="serve the HTTP interface and the web pages")
    serve.add_argument("--host", help="address to listen on (default: VRAMLEDGER_HOST, else 127.0.0.1)")
    serve.add_argument("--port", type=int, help="default: VRAMLEDGER_PORT, else 8000")
    serve.add_argument("--public", action="store_true", help="listen beyond loopback without tokens")
    serve.set_defaults(run=_serve)

    slack = commands.add_parser("slack", help="answer in Slack over Socket Mode, without an address that Slack could reach")
    slack.set_defaults(run=_slack)

    database = commands.add_parser("db", help="the store's schema").add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
    upgrade = database.add_parser("upgrade", help="bring the database to this version's schema")
    upgrade.set_defaults(run=_db_upgrade)

    library = commands.add_parser("patterns", help="the pattern library")
    patterns = library.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
    for name, run, text in (
        ("check", _patterns_check, "validate every file and run every example"),
        ("list", _patterns_list, "one line a pattern"),
        ("show", _patterns_show, "explain one pattern or cause"),
    ):
        action = patterns.add_parser(name, help=text)
        if name == "show":
            action.add_argument("id")
            action.add_argument("--lang", choices=LANGUAGES, default=default_language())
        action.add_argument("--patterns", action="append", default=[], metavar="DIR", type=Path, help="a folder of your own patterns")
        action.set_defaults(run=run)

    lint = commands.add_parser("lint-command", help="check the flags of a launch command against a version of its engine")
    lint.add_argument("command", metavar="COMMAND", help="the command as typed, in quotes; - reads it from standard input")
    lint.add_argument("--engine", choices=("vllm",), default="vllm")
    lint.add_argument("--version", dest="engine_version", metavar="VERSION", help="the engine's version (default: the newest known one)")
    lint.add_argument("--format", choices=("text", "json"), default="text")
    lint.add_argument("--lang", choices=LANGUAGES, default=default_language())
    lint.set_defaults(run=_lint)

    cli_team.register(commands, patterns, _Parser)

    schema = commands.add_parser("schema", help="print the JSON Schema of a report")
    schema.set_defaults(run=_schema)
    engines = commands.add_parser("engines", help="print what is read of each engine, and what is computed, as Markdown")
    engines.set_defaults(run=_engines)


# --- commands ----------------------------------------------------------------------------------------------------------------------


def _analyze(options: argparse.Namespace) -> int:
    from analyzer.analysis import Input, analyze
    from analyzer.intake.errors import IntakeError
    from analyzer.patterns.load import LibraryError
    from analyzer.report import render

    names: list[str] = options.files
    if not names:
        if sys.stdin.isatty():
            return fail("name a file, or pipe a log in: vllm serve … 2>&1 | vramledger analyze", options.lang)
        names = ["-"]
    inputs: list[Input] = [("stdin", sys.stdin.buffer) if name == "-" else Path(name) for name in names]
    try:
        report = analyze(inputs, patterns=options.patterns)
    except IntakeError as error:
        return fail(error.message, options.lang)
    except LibraryError as error:
        return unusable(error, options.lang)
    except OSError as error:
        return fail("{name}: {reason}", options.lang, name=error.filename or "input", reason=error.strerror or error)
    text = render(report, options.format, options.lang, width=_columns(sys.stdout), color=_colored(options.color, sys.stdout))
    sys.stdout.write(text)
    sys.stdout.flush()
    return _EXIT[report.outcome.state.value]


def _columns(stream: IO[str]) -> int:
    """The terminal's width, 80 where the output is no terminal."""
    if not stream.isatty():
        return 80
    try:
        return max(60, min(os.get_terminal_size(stream.fileno()).columns, 160))
    except OSError:
        return 80


def _colored(choice: str, stream: IO[str]) -> bool:
    if choice == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR")
    return choice == "always"


def _redact(options: argparse.Namespace) -> int:
    from analyzer.intake.redact import Redactor, redact_lines
    from analyzer.patterns.load import load

    redactor = Redactor(load().redactions)
    try:
        stream = sys.stdin.buffer if options.file == "-" else Path(options.file).open("rb")  # noqa: SIM115 - closed below, standard input is not
    except OSError as error:
        return fail("{name}: {reason}", name=options.file, reason=error.strerror)
    try:
        lines = (line.decode("utf-8", "replace") for line in stream)
        for line in redact_lines(redactor, lines):
            sys.stdout.write(line)
    finally:
        if options.file != "-":
            stream.close()
    sys.stdout.flush()
    return 0


def _serve(options: argparse.Namespace) -> int:
    from analyzer.web.serve import run

    return run(host=options.host, port=options.port, public=options.public)


def _slack(options: argparse.Namespace) -> int:
    from analyzer.slack.socket import run

    return run()


def _db_upgrade(options: argparse.Namespace) -> int:
    from analyzer.settings import SettingsError, load
    from analyzer.store.database import DatabaseError
    from analyzer.store.upgrade import upgrade

    try:
        revision = upgrade(load().database)
    except (SettingsError, DatabaseError) as error:
        return fail(str(error))
    print(f"the database is at revision {revision}")
    return 0


def _patterns_check(options: argparse.Namespace) -> int:
    from analyzer.patterns.examples import failures
    from analyzer.patterns.load import LibraryError, load

    try:
        library = load(options.patterns, cache=False)
    except LibraryError as error:
        print(error, file=sys.stderr)
        print(f"{len(error.problems)} problems", file=sys.stderr)
        return 1
    problems = failures(library)
    for problem in problems:
        print(problem, file=sys.stderr)
    examples = sum(len(pattern.examples) + len(pattern.not_examples) for pattern in library.patterns)
    print(f"{len(library.patterns)} patterns, {len(library.causes)} causes, {examples} examples: {len(problems) or 'no'} problems")
    return 1 if problems else 0


def _patterns_list(options: argparse.Namespace) -> int:
    from analyzer.patterns.load import LibraryError, load

    try:
        library = load(options.patterns)
    except LibraryError as error:
        return unusable(error)
    for pattern in library.patterns:
        what = pattern.cause or ", ".join(dict.fromkeys(spec.name for spec in pattern.facts)) or pattern.stage or pattern.marks or ""
        print(f"{pattern.id:48} {pattern.versions or '':20} {what}")
    return 0


def _patterns_show(options: argparse.Namespace) -> int:
    from analyzer.patterns.load import LibraryError, load
    from analyzer.report.library_page import page

    try:
        shown = page(load(options.patterns), options.id, options.lang)
    except LibraryError as error:
        return unusable(error, options.lang)
    if shown is None:
        return fail("no pattern or cause has the id {id}; `vramledger patterns list` prints all", options.lang, id=repr(options.id))
    print(shown)
    return 0


def _lint(options: argparse.Namespace) -> int:
    """0: the version takes every option; 1: it refuses one; 64: there is no command in the text, or no such version."""
    from analyzer.engines.vllm import flags, lint
    from analyzer.model.versions import key
    from analyzer.report.lint import as_json, as_text

    text: str = sys.stdin.read() if options.command == "-" else options.command
    version: str = options.engine_version or flags.versions()[-1]
    try:
        key(version)
    except ValueError:
        return fail("{version} is no version", options.lang, version=repr(version))
    found = lint.options_of(text)
    if found is None:
        return fail("no vLLM command in this text; write it as typed, e.g. 'vllm serve MODEL --max-model-len 8192'", options.lang)
    issues = lint.check(found, lint.variables_of(text), version)
    corrected = lint.corrected(text, issues, found, version)
    if options.format == "json":
        sys.stdout.write(as_json(issues, version, corrected, options.lang))
    else:
        sys.stdout.write(as_text(issues, version, len(found), corrected, options.lang, _columns(sys.stdout)))
    return 1 if any(issue.fatal for issue in issues) else 0


def _engines(options: argparse.Namespace) -> int:
    from analyzer.patterns.load import load
    from analyzer.report.engines_page import engines_page

    print(engines_page(load()))
    return 0


def _schema(options: argparse.Namespace) -> int:
    import json

    from analyzer.model.contract import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
