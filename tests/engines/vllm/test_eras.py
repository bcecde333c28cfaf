"""The identity of every era, forwards, backwards and around."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analyzer.engines.vllm import eras, identity, inverse
from analyzer.engines.vllm.eras import ERAS, Era, era_of, possible
from analyzer.model.versions import Range

GIB = 2**30
ROUNDING = GIB // 50  # what two decimals per term leave open


def gib(size: float) -> int:
    return round(size * GIB)


@pytest.mark.parametrize(
    ("version", "generation", "name"),
    [
        ("0.2.0", None, "V0-A"),
        ("0.2.4", None, "V0-A"),
        ("0.2.5", None, "V0-B"),
        ("0.3.0", None, "V0-B"),
        ("0.3.1", None, "V0-C"),
        ("0.6.3.post1", None, "V0-C"),
        ("0.6.4.post1", "v0", "V0-D"),
        ("0.6.4", "v1", "V1-a"),
        ("0.6.5", "v0", "V0-E"),
        ("0.10.2", "v0", "V0-E"),
        ("0.7.3", "v1", "V1-b"),
        ("0.9.0.1", "v1", "V1-b"),
        ("0.9.1", "v1", "V1-c"),
        ("0.10.2", "v1", "V1-c"),
        ("0.11.0", None, "V1-d"),
        ("0.11.0rc1", None, "V1-d"),
        ("0.15.2rc1.dev93+g11a4c9d30", None, "V1-d"),
        ("0.17.1", None, "V1-d"),
        ("0.18.0", None, "V1-e"),
        ("0.19.1", None, "V1-e"),
        ("0.20.0", None, "V1-f"),
        ("0.26.0", None, "V1-f"),
        ("0.27.0", None, "V1-g"),
        ("0.29.1rc1.dev339+gda9888462", None, "V1-g"),
        ("0.40.0", None, "V1-g"),
    ],
)
def test_version_gives_its_era(version: str, generation: eras.Generation | None, name: str) -> None:
    era = era_of(version, generation)
    assert era is not None
    assert era.name == name


def test_what_a_range_leaves_open_is_said() -> None:
    assert era_of(Range.parse(">=0.9.1,<=0.33.0"), "v1") is None
    assert [era.name for era in possible(Range.parse(">=0.18.0,<0.27.0"))] == ["V1-e", "V1-f"]
    assert [era.name for era in possible("0.9.0")] == ["V0-E", "V1-b"]
    assert era_of("0.9.0") is None
    assert era_of(None) is None
    assert possible("0.11.0", "v0") == ()
    spanning = possible(Range.parse(">=0.9.1"), "v1")
    assert eras.common_parts(spanning) == ("weights", "non_torch", "activation_peak")
    assert eras.common_check(spanning) is True
    assert eras.common_others(possible("0.9.0")) is None
    assert eras.beyond_read("0.34.0")
    assert not eras.beyond_read("0.33.0")


@pytest.mark.parametrize(
    ("version", "env", "default", "open_"),
    [
        ("0.6.3", {}, "v0", ("v0",)),
        ("0.7.3", {}, "v0", ("v0", "v1")),
        ("0.7.3", {"VLLM_USE_V1": "1"}, "v1", ("v1",)),
        ("0.8.5", {}, "v1", ("v1", "v0")),
        ("0.8.5", {"VLLM_USE_V1": "0"}, "v0", ("v0",)),
        ("0.11.0", {"VLLM_USE_V1": "0"}, "v1", ("v1",)),
    ],
)
def test_generation(version: str, env: dict[str, str], default: str, open_: tuple[str, ...]) -> None:
    assert eras.default_generation(version, env) == default
    assert eras.generations(version, env) == open_


def test_generation_of_a_spanning_range_is_open() -> None:
    assert eras.default_generation(Range.parse(">=0.7.0,<0.9.0")) is None
    assert eras.default_generation(Range.parse(">=0.8.0")) == "v1"


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("0.2.0", 0.9),
        ("0.19.1", 0.9),
        ("0.20.0", 0.92),
        (Range.parse(">=0.20.0"), 0.92),
        (Range.parse(">=0.19.0,<0.21.0"), None),
        (None, None),
    ],
)
def test_default_utilization(where: eras.Where, value: float | None) -> None:
    assert eras.default_utilization(where) == value


def test_every_version_and_generation_has_exactly_one_era() -> None:
    for version in ("0.2.0", "0.2.7", "0.5.5", "0.6.4", "0.6.5", "0.8.0", "0.9.1", "0.11.0", "0.18.0", "0.20.0", "0.26.0", "0.27.0"):
        for generation in eras.generations(version):
            assert len(possible(version, generation)) == 1, (version, generation)


# Ledgers of real logs: total, utilization and the parts in GiB as printed.
LEDGERS = [
    ("0.6.6.post1", "v0", 15.77, 0.95, {"weights": 7.51, "non_torch": 0.39, "activation_peak": 2.53}, 4.55),
    ("0.6.6.post1", "v0", 44.42, 0.9, {"weights": 30.71, "non_torch": 0.3, "activation_peak": 1.26}, 7.71),
    ("0.7.3", "v0", 31.37, 0.85, {"weights": 10.8, "non_torch": 0.33, "activation_peak": 1.01}, 14.52),
    ("0.7.3", "v0", 31.37, 0.85, {"weights": 10.3, "non_torch": 0.33, "activation_peak": 1.77}, 14.26),
    ("0.6.4.post1", "v0", 23.58, 0.9, {"torch_peak": 17.98, "non_torch": 0.35}, 2.89),
    ("0.6.4.post1", "v0", 22.07, 0.95, {"torch_peak": 12.10, "non_torch": 0.48}, 8.39),
    ("0.6.5", "v0", 95.13, 0.9, {"weights": 25.58, "non_torch": 1.59, "activation_peak": 5.77}, 52.67),
    ("0.10.2", "v0", 23.67, 0.7, {"weights": 6.10, "non_torch": 0.39, "activation_peak": 0.85}, 9.23),
    ("0.26.0", "v1", 79.11, 0.92, {"weights": 7.39, "non_torch": 0.6, "activation_peak": 1.54}, 63.25),
    ("0.8.2", "v0", 15.6, 0.93, {"weights": 7.9, "non_torch": 0.65, "activation_peak": 1.74}, 4.22),
    ("0.27.0", "v1", 15.55, 0.85, {"consumed": 6.36, "activation_peak": 1.65}, 5.2),
    ("0.33.0", "v1", 39.47, 0.95, {"consumed": 22.16, "activation_peak": 3.63}, 11.71),
    ("0.6.6.post1", "v0", 23.64, 0.9, {"weights": 2.68, "non_torch": 0.27, "activation_peak": 1.42}, 16.91),
    ("0.7.3", "v0", 23.55, 0.95, {"weights": 15.63, "non_torch": 0.09, "activation_peak": 2.1}, 4.55),
]


@pytest.mark.parametrize(("version", "generation", "total", "utilization", "parts", "kv_cache"), LEDGERS)
def test_ledgers_that_were_printed_close(
    version: str, generation: eras.Generation, total: float, utilization: float, parts: dict[str, float], kv_cache: float
) -> None:
    era = era_of(version, generation)
    assert era is not None
    terms = {name: gib(size) for name, size in parts.items()} | {"budget": identity.budget_bytes(gib(total), utilization)}
    assert abs(identity.forward(era, terms, graphs_inside=False) - gib(kv_cache)) <= ROUNDING
    closed = identity.closure(era, terms | {"kv_cache": gib(kv_cache)}, graphs_inside=False)
    assert closed is not None
    assert abs(closed) <= ROUNDING


SIZES = st.integers(min_value=0, max_value=200 * GIB)
PLACES = st.booleans()


@st.composite
def plans(draw: st.DrawFn) -> tuple[Era, bool, dict[str, int]]:
    """An era with all its terms, the pool included, so that the identity holds."""
    era = draw(st.sampled_from(ERAS))
    inside = draw(PLACES) if era.graphs is not eras.GraphRule.OUTSIDE else False
    terms = {name: draw(SIZES) for name in identity.parts_of(era, inside)}
    terms["budget"] = draw(SIZES)
    terms["kv_cache"] = terms["budget"] - sum(terms[name] for name in identity.parts_of(era, inside))
    return era, inside, terms


@given(plans())
def test_forward_gives_the_pool_and_every_term_comes_back(plan: tuple[Era, bool, dict[str, int]]) -> None:
    era, inside, terms = plan
    assert identity.forward(era, terms, graphs_inside=inside) == terms["kv_cache"]
    assert identity.closure(era, terms, graphs_inside=inside) == 0
    for name, value in terms.items():
        found = identity.backward(era, {k: v for k, v in terms.items() if k != name}, name, graphs_inside=inside)
        assert found is not None, name
        assert found.bytes == value
        assert name not in found.terms


@given(plans())
def test_a_printed_sum_stands_in_for_its_parts(plan: tuple[Era, bool, dict[str, int]]) -> None:
    era, inside, terms = plan
    for name, members in identity.SUMS.items():
        if not members <= set(identity.parts_of(era, inside)):
            continue
        coarse = {k: v for k, v in terms.items() if k not in members} | {name: sum(terms[k] for k in members)}
        assert identity.forward(era, coarse, graphs_inside=inside) == terms["kv_cache"]
        told = identity.backward(era, {k: v for k, v in coarse.items() if k != name}, name, graphs_inside=inside)
        assert told is not None
        assert told.bytes == coarse[name]
        for member in members:  # one member more tells the other
            other = next(iter(members - {member}))
            split = identity.backward(era, {name: coarse[name], other: terms[other]}, member, graphs_inside=inside)
            assert split is not None
            assert split.bytes == terms[member]


@given(plans(), st.data())
def test_a_missing_term_is_named_and_nothing_is_made_up(plan: tuple[Era, bool, dict[str, int]], data: st.DataObject) -> None:
    era, inside, terms = plan
    parts = identity.parts_of(era, inside)
    gone = data.draw(st.sampled_from([*parts, "budget"]))
    rest = {k: v for k, v in terms.items() if k not in (gone, "kv_cache")}
    with pytest.raises(identity.MissingTermError) as raised:
        identity.forward(era, rest, graphs_inside=inside)
    assert raised.value.name == gone
    assert identity.backward(era, rest, gone, graphs_inside=inside) is None


def test_formulas_name_their_terms() -> None:
    era = era_of("0.8.5", "v1")
    assert era is not None
    found = identity.backward(era, {"budget": 100, "kv_cache": 30, "weights": 50}, "activation_and_non_torch", graphs_inside=False)
    assert found is not None
    assert (found.bytes, found.formula) == (20, "budget − kv_cache − weights")
    new = era_of("0.29.0")
    assert new is not None
    external = identity.backward(
        new, {"budget": 100, "consumed": 40, "peak_with_graphs": 20, "external_weights": 10}, "kv_cache", graphs_inside=True
    )
    assert external is not None
    assert (external.bytes, external.formula) == (30, "budget − external_weights − consumed − peak_with_graphs")


TOTALS = st.integers(min_value=GIB, max_value=300 * GIB)
SHARES = st.integers(min_value=1, max_value=100)


@given(plans(), TOTALS, SHARES, st.integers(min_value=-50 * GIB, max_value=300 * GIB))
def test_the_utilization_that_the_inverse_names_gives_the_pool(
    plan: tuple[Era, bool, dict[str, int]], total: int, share: int, needed: int
) -> None:
    era, inside, terms = plan
    terms = dict(terms)
    terms["budget"] = identity.budget_bytes(total, Fraction(share, 100))
    terms["kv_cache"] = identity.forward(era, terms, graphs_inside=inside)
    found = inverse.utilization_needed(total, terms["budget"], terms["kv_cache"], needed)
    assert found == round(found, 2)
    assume(found > 0)
    for utilization, enough in ((found, True), (round(found - 0.01, 2), False)):
        if utilization < 0:
            continue
        budget = identity.budget_bytes(total, utilization)
        pool = identity.forward(era, terms | {"budget": budget}, graphs_inside=inside)
        assert pool == inverse.kv_at(total, utilization, terms["budget"], terms["kv_cache"])
        assert (pool >= needed) is enough


@given(TOTALS, SHARES)
def test_the_same_pool_needs_the_same_utilization(total: int, share: int) -> None:
    budget = identity.budget_bytes(total, Fraction(share, 100))
    assert inverse.utilization_needed(total, budget, 5 * GIB, 5 * GIB) == share / 100
    assert inverse.utilization_down(total, identity.budget_bytes(total, Fraction(share, 100), up=True)) == share / 100


@given(TOTALS, st.integers(min_value=0, max_value=300 * GIB))
def test_the_start_check_passes_at_the_utilization_found_and_not_above(total: int, free0: int) -> None:
    assume(free0 < total)
    found = inverse.utilization_for_free(total, free0)
    assert identity.budget_bytes(total, found) <= free0
    assert identity.budget_bytes(total, round(found + 0.01, 2), up=True) > free0


@given(st.sampled_from(ERAS), TOTALS, SHARES, SIZES, SIZES, SIZES, st.integers(min_value=0, max_value=5 * GIB))
def test_every_utilization_in_the_window_fits(era: Era, total: int, share: int, pool: int, needed: int, free0: int, graphs: int) -> None:
    free0 = min(free0, total)
    budget = identity.budget_bytes(total, Fraction(share, 100))
    window = inverse.utilization_window(
        era, total=total, budget=budget, kv_cache=pool, kv_needed=needed, free0=free0, graphs_outside=graphs
    )
    assert window.verified
    assert window.feasible is (window.low <= window.high)
    assert 0 <= window.high <= 1
    if window.high > 0:
        top = identity.budget_bytes(total, window.high)
        room = inverse.room_outside(era, total, top, free0)
        assert room is not None
        assert room >= graphs
    if window.high < 1:
        above = identity.budget_bytes(total, round(window.high + 0.01, 2), up=True)
        room = inverse.room_outside(era, total, above, free0)
        assert room is not None
        assert room < graphs or above > total
    if window.feasible and window.low > 0:
        assert inverse.kv_at(total, window.low, budget, pool) >= needed


@given(TOTALS, SHARES, SIZES, SIZES, SIZES)
def test_more_pool_never_needs_less_utilization(total: int, share: int, pool: int, one: int, two: int) -> None:
    budget = identity.budget_bytes(total, Fraction(share, 100))
    low, high = sorted((one, two))
    assert inverse.utilization_needed(total, budget, pool, low) <= inverse.utilization_needed(total, budget, pool, high)


@pytest.mark.parametrize(
    ("total", "budget", "kv_cache", "needed", "expected"),
    [
        (23.58, 21.22, 2.89, 3.54, 0.93),  # 29,000 tokens on a 3090, 0.6.4.post1
        (23.58, 21.22, -1.0, 1.0, 0.99),
    ],
)
def test_utilization_of_known_cases(total: float, budget: float, kv_cache: float, needed: float, expected: float) -> None:
    assert inverse.utilization_needed(gib(total), gib(budget), gib(kv_cache), gib(needed)) == expected


def test_start_check_of_known_cases() -> None:
    assert inverse.utilization_for_free(gib(79.25), gib(67.24)) == 0.84
    assert inverse.utilization_for_free(gib(121.69), gib(11.64)) == 0.09


def test_windows_say_what_they_rest_on() -> None:
    old, new, counted = era_of("0.6.6.post1", "v0"), era_of("0.9.1", "v1"), era_of("0.8.5", "v1")
    assert old
    assert new
    assert counted
    figures = {"total": gib(15.77), "budget": gib(14.98), "kv_cache": gib(4.55), "kv_needed": gib(3.0)}
    unknown = inverse.utilization_window(old, **figures, free0=None, graphs_outside=None)
    assert not unknown.verified
    graphs = inverse.utilization_window(new, **figures, free0=gib(15.5), graphs_outside=gib(1.3))
    assert (graphs.low, graphs.high, graphs.limit, graphs.verified) == (0.86, 0.9, "graphs", True)
    neighbour = inverse.utilization_window(new, **figures, free0=gib(9.0), graphs_outside=0)
    assert (neighbour.high, neighbour.feasible, neighbour.limit) == (0.57, False, "free0")
    assert inverse.utilization_window(counted, **figures, free0=None, graphs_outside=0).verified


def test_vllms_own_suggestion_is_reproduced() -> None:
    non_kv = gib(7.39) + gib(1.54) + gib(0.6)
    suggested = inverse.suggested_pool(gib(72.78), non_kv, gib(2.04))
    assert abs(suggested - 65565989131) < 5 * ROUNDING


def test_graph_estimate_out_of_the_profilers_note() -> None:
    assert inverse.equivalent_utilization_gap(gib(79.11), 0.92, 0.9265) == int(gib(79.11) * Fraction(65, 10000))


def test_a_pool_set_by_hand_is_protected_by_nothing() -> None:
    assert inverse.pinned_room(gib(20), gib(10), weights=gib(8), activation_peak=gib(1), non_torch=gib(0.5), graphs=gib(1)) == gib(-0.5)


@pytest.mark.parametrize("total", [0, -1])
def test_a_card_without_memory_has_no_share(total: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        inverse.utilization_up(total, 1)
