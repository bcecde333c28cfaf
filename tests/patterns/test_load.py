"""The library's files through their cache: it saves the parsing, and nothing that happens to it changes an answer."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from analyzer.data import CACHES_KEPT, folder
from analyzer.patterns import load as loading
from analyzer.patterns.load import LibraryError, from_dict, load, to_dict
from analyzer.patterns.model import StoredPatterns

OWN = """\
- id: mine.pattern
  topic: mine
  anchor: "scratch disk is slow"
  examples: ["the scratch disk is slow"]
"""


FACTS = "- {name: weights, unit: GiB, scope: rank}\n"
LIBRARY = """\
- id: one.start
  topic: one
  anchor: "vllm serve "
  start: 0
  examples: ["vllm serve org/model"]
- id: one.weights
  topic: one
  anchor: "Loading model weights took"
  match: 'took (?P<weights>[\\d.]+) GB'
  facts: {weights: {unit: GiB}}
  fixes: []
  examples: ["Loading model weights took 4.5 GB"]
"""


@pytest.fixture(autouse=True)
def library(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small library in place of the installation's; ``real`` marks the tests of that."""
    if "real" in request.fixturenames:
        return
    root = tmp_path / "library"
    (root / "one").mkdir(parents=True)
    (root / "facts.yaml").write_text(FACTS)
    (root / "one" / "lines.yaml").write_text(LIBRARY)
    monkeypatch.setattr(loading, "folder", lambda name: root)


@pytest.fixture
def real() -> None:
    """The installation's own library."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, empty."""
    monkeypatch.setenv("VRAMLEDGER_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's folder with one pattern."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.yaml").write_text(OWN)
    return tmp_path / "own"


def forbid_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("parsed anew")

    monkeypatch.setattr(loading, "_parse", refuse)


def test_the_second_time_nothing_is_parsed_and_the_library_is_the_same(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load()
    assert [path.name for path in cache.iterdir()] == [f"library-{first.version}.json"]
    forbid_parsing(monkeypatch)
    assert load() == first


@pytest.mark.usefixtures("real")
def test_the_cached_form_holds_all_of_the_installations_library() -> None:
    parsed = load(cache=False)
    assert len(parsed.patterns) > 300
    assert from_dict(json.loads(json.dumps(to_dict(parsed)))) == parsed


def test_zeros_and_empty_lists_are_kept_in_the_cached_form() -> None:
    parsed = load(cache=False)
    again = from_dict(json.loads(json.dumps(to_dict(parsed))))
    assert again == parsed
    assert [pattern.start for pattern in again.patterns] == [0, None]
    assert [pattern.fixes for pattern in again.patterns] == [None, ()]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b'{"version": "x", "patterns": [{"id": 1, "no": 2}]}'])
def test_a_damaged_cache_is_made_anew(cache: Path, damage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load()
    (file,) = cache.iterdir()
    file.write_bytes(damage)
    assert load() == first
    forbid_parsing(monkeypatch)
    assert load() == first


@pytest.mark.parametrize("lost", [slice(None, -1), slice(None, -20), slice(1, None)])
def test_a_cut_cache_is_made_anew(cache: Path, lost: slice, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load()
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[lost])
    assert load() == first
    forbid_parsing(monkeypatch)
    assert load() == first


def test_a_pattern_of_the_cache_is_made_when_it_is_asked_for(cache: Path) -> None:
    parsed = load()
    kept = load()
    assert isinstance(kept.patterns, StoredPatterns)
    assert [(tuple(anchors), marks) for anchors, marks in kept.anchors()] == list(parsed.anchors())
    assert kept.patterns[1] is kept.patterns[1]
    assert list(kept.patterns[0:2]) == list(parsed.patterns)
    assert kept.patterns != parsed.patterns[:1]


def test_half_a_cache_of_another_process_is_never_read(cache: Path) -> None:
    """It is written under another name and moved: a name that ends in a process id is nobody's."""
    version = load(cache=False).version
    cache.mkdir()
    (cache / f"library-{version}.json.4711").write_text("{")
    assert load().version == version


@pytest.mark.parametrize("obstacle", ["a file in its place", "a folder that cannot be written"])
def test_without_a_place_for_the_cache_the_library_is_parsed(obstacle: str, cache: Path) -> None:
    if obstacle == "a file in its place":
        cache.write_text("")
    else:
        cache.mkdir()
        (cache / f"library-{load(cache=False).version}.json").mkdir()
    assert load() == load(cache=False)
    assert not [path for path in cache.parent.rglob("*") if path.name.endswith(str(os.getpid()))]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_home(cache: Path) -> None:
    cache.mkdir(mode=0o500)
    assert load() == load(cache=False)


def test_the_place_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VRAMLEDGER_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    load()
    assert [path.name[:8] for path in (tmp_path / "xdg" / "vramledger").iterdir()] == ["library-"]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    load()
    assert [path.name[:8] for path in (tmp_path / "home" / ".cache" / "vramledger").iterdir()] == ["library-"]


def test_a_users_folder_is_added(cache: Path, own: Path) -> None:
    alone, together = load(), load([own])
    assert [pattern.id for pattern in together.patterns] == [*(pattern.id for pattern in alone.patterns), "mine.pattern"]
    assert together.causes == alone.causes
    assert alone.version != together.version
    assert len(list(cache.iterdir())) == 2
    assert load([own]) == together
    assert load().pattern("mine.pattern") is None


def test_the_version_is_that_of_the_content(own: Path) -> None:
    before = load([own], cache=False).version
    assert load([own], cache=False).version == before
    copied = own.parent / "copy"
    shutil.copytree(own, copied)
    assert load([copied], cache=False).version == before  # wherever it lies
    (own / "mine.yaml").write_text(OWN + "\n")
    after = load([own], cache=False).version
    assert after != before
    (own / "mine.yaml").rename(own / "other.yaml")
    assert load([own], cache=False).version not in (before, after)


def test_what_is_wrong_with_a_users_folder_is_told(own: Path) -> None:
    with pytest.raises(LibraryError) as caught:
        load([own / "absent"], cache=False)
    assert caught.value.problems == [f"{own / 'absent'}: no such folder of patterns"]
    (own / "more.yaml").write_text("- id: mine.more\n")
    (own / "sub").mkdir()
    (own / "sub" / "third.yaml").write_text("- 7\n")
    with pytest.raises(LibraryError) as caught:
        load([own], cache=False)
    assert [problem.split(": ")[0] for problem in caught.value.problems] == ["more.yaml", "sub/third.yaml"]


def test_an_id_of_the_library_is_taken(own: Path) -> None:
    known = load(cache=False).patterns[0]
    (own / "mine.yaml").write_text(OWN.replace("mine.pattern", known.id))
    with pytest.raises(LibraryError, match=f"mine.yaml: {known.id}: the id is taken by an entry of {known.file}"):
        load([own], cache=False)


def test_only_yaml_files_count(own: Path) -> None:
    before = load([own], cache=False).version
    (own / "README.md").write_text("not a pattern")
    assert load([own], cache=False).version == before


def test_the_librarys_folder_is_found() -> None:
    assert (folder("patterns") / "facts.yaml").is_file()


def test_old_caches_are_cleared_away(cache: Path, own: Path) -> None:
    versions = []
    for number in range(CACHES_KEPT + 2):
        (own / "mine.yaml").write_text(f"{OWN}# {number}\n")
        versions.append(load([own]).version)
        os.utime(cache / f"library-{versions[-1]}.json", (number, number))
    kept = {path.name for path in cache.iterdir()}
    assert f"library-{versions[-1]}.json" in kept
    assert f"library-{versions[0]}.json" not in kept
    assert len(kept) == CACHES_KEPT
