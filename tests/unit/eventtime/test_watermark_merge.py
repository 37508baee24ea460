"""How far event time has come over several inputs, of which some are idle, have ended or never spoke."""

from hypothesis import given
from hypothesis import strategies as st

from kstreampy.eventtime.watermark import WatermarkMerge
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP


def test_the_minimum_counts_once_everybody_has_spoken():
    merge = WatermarkMerge(["a", "b", "c"])
    assert merge.current() == NO_TIMESTAMP
    merge.advance("a", 10)
    merge.advance("b", 5)
    assert merge.current() == NO_TIMESTAMP
    merge.advance("c", 7)
    assert merge.current() == 5
    merge.advance("b", MAX_WATERMARK)
    assert merge.current() == 7
    assert merge.marks() == {"a": 10, "b": MAX_WATERMARK, "c": 7}


def test_going_back_and_strangers_are_ignored():
    merge = WatermarkMerge(["a"])
    merge.advance("a", 10)
    merge.advance("a", 9)
    merge.advance("stranger", 1)
    assert merge.current() == 10
    assert merge.marks() == {"a": 10}


def test_what_was_known_before_a_restart_holds():
    merge = WatermarkMerge(["a", "b"], {"a": 5, "b": 7, "gone": 1})
    assert merge.current() == 5
    merge.advance("a", 3)
    assert merge.current() == 5


def test_marks_are_a_copy():
    merge = WatermarkMerge(["a"])
    merge.marks()["a"] = 99
    assert merge.current() == NO_TIMESTAMP


def test_without_inputs_there_is_no_watermark():
    assert WatermarkMerge([]).current() == NO_TIMESTAMP


NAMES = st.sampled_from("abc")


@given(st.lists(st.tuples(NAMES, st.integers(-100, 100)), max_size=40))
def test_the_merge_is_the_minimum_of_maxima_and_never_goes_back(steps):
    merge = WatermarkMerge("abc")
    seen = dict.fromkeys("abc", NO_TIMESTAMP)
    before = NO_TIMESTAMP
    for name, mark in steps:
        merge.advance(name, mark)
        seen[name] = max(seen[name], mark)
        assert merge.current() == min(seen.values())
        assert merge.current() >= before
        before = merge.current()


def test_an_idle_input_holds_nothing_back_until_it_returns():
    merge = WatermarkMerge(["a", "b"])
    merge.advance("a", 100)
    merge.advance("b", 10)
    assert merge.current() == 10
    merge.advance("b", 10, idle=True)
    assert merge.current() == 100
    assert not merge.is_idle()
    merge.advance("b", 20)
    merge.advance("a", 200)
    assert merge.current() == 100, "what has returned holds time where it is, so that its records are not late"
    merge.advance("b", 150)
    assert merge.current() == 150


def test_an_input_that_never_spoke_may_be_idle():
    merge = WatermarkMerge(["a", "never"])
    merge.advance("a", 100)
    merge.advance("never", NO_TIMESTAMP, idle=True)
    assert merge.current() == 100


def test_all_idle_is_idle_at_the_furthest_of_them_in_any_order():
    for order in ("ab", "ba"):
        merge = WatermarkMerge("ab")
        merge.advance("a", 100)
        merge.advance("b", 10)
        merge.current()
        for name in order:
            assert not merge.is_idle()
            merge.advance(name, NO_TIMESTAMP, idle=True)
        assert merge.is_idle()
        assert merge.current() == 100
        merge.advance("b", 11)
        assert not merge.is_idle()
        assert merge.current() == 100


def test_an_ended_input_is_not_waited_for_and_does_not_end_the_others():
    merge = WatermarkMerge("ab")
    merge.advance("a", MAX_WATERMARK)
    merge.advance("b", 5, idle=True)
    assert merge.current() == 5, "b may come back"
    assert merge.is_idle()
    merge.advance("a", 7, idle=True)
    assert merge.has_ended("a")
    merge.advance("b", MAX_WATERMARK)
    assert merge.current() == MAX_WATERMARK
    assert not merge.is_idle()


def test_without_inputs_it_is_idle():
    """A task without splits, to which some may come."""
    merge = WatermarkMerge([])
    assert merge.is_idle()
    merge.add("a")
    assert not merge.is_idle()
    merge.advance("a", 5)
    merge.add("a")
    assert merge.current() == 5


def test_who_was_idle_before_a_restart_is():
    merge = WatermarkMerge("ab", {"a": 100}, {"b"})
    assert merge.current() == 100
    assert merge.marks() == {"a": 100, "b": NO_TIMESTAMP}


MARKS = st.integers(-100, 100) | st.just(NO_TIMESTAMP) | st.just(MAX_WATERMARK)
STEPS = st.lists(st.tuples(NAMES, MARKS, st.booleans()), max_size=40)


def brute_force(steps):
    """By the definition: after each step, from everything that was ever said."""
    output, idle_states = NO_TIMESTAMP, []
    for length in range(1, len(steps) + 1):
        said = steps[:length]
        marks = {n: max([NO_TIMESTAMP, *(m for name, m, _ in said if name == n)]) for n in "abc"}
        open_ones = [n for n in "abc" if marks[n] < MAX_WATERMARK]
        idle = {n: ([False] + [i for name, _, i in said if name == n])[-1] for n in open_ones}
        active = [marks[n] for n in open_ones if not idle[n]]
        if active:
            output = max(output, min(active))
        elif open_ones:
            output = max(output, *(marks[n] for n in open_ones))
        else:
            output = MAX_WATERMARK
        idle_states.append((output, bool(open_ones) and not active))
    return idle_states


@given(STEPS)
def test_with_idle_and_ended_inputs_it_is_what_the_definition_says(steps):
    merge = WatermarkMerge("abc")
    for (name, mark, idle), expected in zip(steps, brute_force(steps), strict=True):
        merge.advance(name, mark, idle=idle)
        assert (merge.current(), merge.is_idle()) == expected


@given(STEPS, st.integers(0, 40))
def test_a_restart_in_between_never_makes_it_go_back(steps, at):
    """What a checkpoint keeps: marks and who is idle; and the task keeps its watermark, below which the merge may begin."""
    merge = WatermarkMerge("abc")
    idle = set()
    for name, mark, is_idle in steps[:at]:
        merge.advance(name, mark, idle=is_idle)
        (idle.add if is_idle else idle.discard)(name)
    restored = WatermarkMerge("abc", merge.marks(), idle)
    assert restored.is_idle() == merge.is_idle()
    kept = merge.current()
    assert restored.current() <= kept
    for name, mark, is_idle in steps[at:]:
        merge.advance(name, mark, idle=is_idle)
        restored.advance(name, mark, idle=is_idle)
        assert max(kept, restored.current()) == merge.current()
