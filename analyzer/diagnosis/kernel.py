"""Lines of the kernel log beside an engine's log: do they speak of this start, or of something before it or beside it?

A kernel log has an order and a clock of its own: where it stands among the inputs says nothing. What relates the two are process ids,
as long as both come from the same namespace, and dates, as long as both are printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from analyzer.facts.attempt import Attempt
from analyzer.facts.observation import Event
from analyzer.model.units import natural

#: Patterns of the kernel log, of what watches processes from outside, and of a card in a dump that does not answer.
_KERNEL = re.compile(r"(?:nvidia\.(?:s?xid|nvrm)|linux\.(?:oom|nvrm))\.|k8s\.oom_|nvidia\.smi\.(?:handle|cell_lost|row_of_errors)$")
#: `dmesg -T` and syslog dates; the engine's own is month-day hour:minute:second without a year.
_DMESG = re.compile(
    r"\[\w{3} (?P<month>\w{3}) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) \d{4}\]"
    r"|^(?:\S+ )?(?P<month2>[A-Z][a-z]{2}) +(?P<day2>\d{1,2}) (?P<clock2>\d\d:\d\d:\d\d) "
)
#: Patterns that name a server's process as the victim.
_VICTIMS = ("linux.oom.killed", "linux.oom.kill_or_sacrifice", "linux.oom.summary", "linux.oom.reaped")
#: A unit or cgroup that is somebody's container; what runs in it does not show.
_CONTAINER = re.compile(r"docker|containerd|crio-|kubepods|libpod|podman")
#: Engines, as the pods that run them are called.
_ENGINE = re.compile(r"llm|sglang|llama|tgi|text-gen|lmdeploy|tensorrt")
#: Seconds since the machine's start, as `dmesg` prints them.
_UPTIME = re.compile(r"(?:^|\s)\[ *(?P<seconds>\d+\.\d+)\] ")
ENGINE_TIME = re.compile(r"\b(?P<month>[01]\d)-(?P<day>[0-3]\d)[ T](?P<clock>\d\d:\d\d:\d\d)")
_MONTHS = {name: at for at, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)}
#: Host and container may keep different time zones (UTC-12 to UTC+14): less than this says nothing.
ZONES = timedelta(hours=15)


def is_kernel(event: Event) -> bool:
    """Whether the line is the kernel's, or of what reports its kills: not the engine's own."""
    return _KERNEL.match(event.pattern.id) is not None


def belongs(event: Event, attempt: Attempt) -> bool | None:
    """True: the line names a process of this attempt. False: it cannot be about it. None: the inputs do not tell."""
    pid = _pid(event)
    pids = {process.pid for process in attempt.processes.values() if process.pid is not None}
    if pid is not None and pid in pids:
        return True
    if _long_before(event, attempt):
        return False
    # The pids of a container (its first process is 1) are not the host's, which the kernel prints.
    if pid is not None and pids and min(pids) > 1 and max(pids) > 1000:
        return False
    return None


def of_another(event: Event, attempt: Attempt) -> bool:
    """Whether ``event`` tells of a container, pod, or job that is not this attempt's: the inputs name another one, or what was killed."""
    unit = event.groups.get("unit", "")
    named = any(name in attempt.event_counts for name in _VICTIMS)
    if _CONTAINER.search(unit) is not None and "linux.oom.killed_other" in attempt.event_counts and not named:
        return True
    if "pod" in event.groups:
        return _another_pod(event.groups["pod"], attempt)
    if event.pattern.id == "k8s.oom_killed" and "k8s.container_running" in attempt.signs:
        return "k8s.logs_of_previous" not in attempt.signs and attempt.ready is not None
    jobs = _signed(attempt, "linux.slurm.job", "job")
    return bool(jobs) and "job" in event.groups and event.groups["job"] not in jobs


def _another_pod(pod: str, attempt: Attempt) -> bool:
    """Whether the log is of another pod: ``kubectl logs`` names it, or another one runs and ``pod`` bears no engine's name."""
    logged = _signed(attempt, "k8s.logs_of", "pod")
    if logged:
        return not any(pod == name or pod.startswith(name + "-") for name in logged)  # of a deployment, its name is the beginning
    return "k8s.pod_running" in attempt.signs and _ENGINE.search(pod) is None


def _signed(attempt: Attempt, sign: str, group: str) -> set[str]:
    """What the lines of a sign say in ``group``."""
    seen = attempt.signs[sign].seen if sign in attempt.signs else []
    return {groups[group] for _, groups in seen if group in groups}


def precedes(event: Event, other: Event) -> bool:
    """Whether the kernel's own clock puts ``event`` before ``other``: both of one input, and dated in the same way."""
    if not (is_kernel(event) and is_kernel(other)) or event.places[0].input != other.places[0].input:
        return False
    first, second = event.places[0].text, other.places[0].text
    up, up_other = _UPTIME.search(first), _UPTIME.search(second)
    if up is not None and up_other is not None:
        return float(up["seconds"]) < float(up_other["seconds"])
    date, date_other = date_of(_DMESG.search(first)), date_of(_DMESG.search(second))
    return date is not None and date_other is not None and date < date_other


def _pid(event: Event) -> int | None:
    text = event.groups.get("pid")
    if text is None:
        found = re.search(r"\bpid=(\d+)", event.places[0].text)
        text = found[1] if found else None
    return natural(text) if text is not None else None


def _long_before(event: Event, attempt: Attempt) -> bool:
    """Dated, and so long before the attempt's first dated line that no time zone explains it."""
    then = date_of(_DMESG.search(event.places[0].text))
    times = [*attempt.stage_times.values(), *(time for series in attempt.series.values() for time, _ in series.points[:1])]
    began = [date_of(ENGINE_TIME.search(time)) for time in times]
    known = [moment for moment in began if moment is not None]
    if then is None or not known:
        return False
    return _apart(then, min(known)) > ZONES


def long_after(event: Event, failures: Sequence[Event]) -> bool:
    """Dated, and so long after every dated one of the engine's own errors that no time zone explains it: it did not bring them about."""
    then = date_of(_DMESG.search(event.places[0].text))
    dates = [date_of(ENGINE_TIME.search(failure.time)) for failure in failures if failure.time is not None]
    known = [moment for moment in dates if moment is not None]
    return then is not None and bool(known) and all(_apart(moment, then) > ZONES for moment in known)


def _apart(first: datetime, second: datetime) -> timedelta:
    """From ``first`` to ``second``, of which no year is known: at most half a year, either way."""
    apart, year = second - first, timedelta(days=366)
    if abs(apart) > year / 2:  # the turn of a year lies between the two
        apart += year if apart < timedelta(0) else -year
    return apart


def date_of(matched: re.Match[str] | None) -> datetime | None:
    """The date that a hit of the expressions above states, in the leap year 2000: the engine prints no year."""
    if matched is None:
        return None
    groups = {name.rstrip("2"): value for name, value in matched.groupdict().items() if value is not None}
    month = _MONTHS.get(groups["month"]) or natural(groups["month"]) or 0
    try:
        hour, minute, second = (int(part) for part in groups["clock"].split(":"))
        return datetime(2000, month, int(groups["day"]), hour, minute, second)  # a leap year of no zone: only differences count
    except ValueError:
        return None
