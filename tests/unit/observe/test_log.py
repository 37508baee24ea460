"""Log lines: both formats, context, and secrets that never come out."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from kstreampy.observe import log
from kstreampy.observe.secret import MASK, masked, redact, secret_values

LOGGER = logging.getLogger("kstreampy.runtime.test")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("kstreampy")
    before = [(logger, list(logger.handlers), logger.level, logger.propagate) for logger in (root, own)]
    root.handlers.clear()
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def test_text_lines_carry_context() -> None:
    stream = io.StringIO()
    log.setup(context={"worker": 2}, stream=stream)
    log.Bound(LOGGER, {"stage": "count", "partition": 3}).info("restored %d records", 5)
    assert (
        stream.getvalue()
        .rstrip()
        .endswith("INFO    kstreampy.runtime.test: restored 5 records [worker=2 stage=count partition=3]")
    )


def test_json_lines_are_one_object_each() -> None:
    stream = io.StringIO()
    log.setup(format="json", context={"worker": 2}, stream=stream)
    log.Bound(LOGGER, {"stage": "count"}).warning("two\nlines")
    try:
        raise ValueError("bad")
    except ValueError:
        LOGGER.exception("failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["message"] == "two\nlines"
    assert (first["level"], first["worker"], first["stage"]) == ("warning", 2, "count")
    assert first["time"].endswith("+00:00")
    assert "ValueError: bad" in second["error"]


@pytest.mark.parametrize("format", ["text", "json"])
def test_secrets_are_masked_in_messages_arguments_and_traces(format: str) -> None:
    stream = io.StringIO()
    log.setup(format=format, secrets=['hun"ter22'], stream=stream)
    LOGGER.error("connecting with %s", {"sasl.password": 'hun"ter22'})
    try:
        raise ValueError('login hun"ter22 refused')
    except ValueError:
        LOGGER.exception("failed")
    assert "ter22" not in stream.getvalue()
    assert stream.getvalue().count(MASK) == 3  # message, source line, error


def test_the_level_counts() -> None:
    stream = io.StringIO()
    log.setup("warning", stream=stream)
    LOGGER.info("quiet")
    LOGGER.warning("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


def test_a_program_with_logging_of_its_own_keeps_it_and_nothing_is_said_twice() -> None:
    theirs, ours = io.StringIO(), io.StringIO()
    logging.basicConfig(stream=theirs, level="INFO", force=True)
    for _ in range(2):
        log.setup(stream=ours)
    LOGGER.info("from kstreampy")
    logging.getLogger("user").info("from the user")
    assert ours.getvalue().count("from kstreampy") == 1
    assert "from kstreampy" not in theirs.getvalue()
    assert "from the user" in theirs.getvalue()


def test_setting_up_again_does_not_double_lines() -> None:
    stream = io.StringIO()
    for _ in range(3):
        log.setup(stream=stream)
    LOGGER.info("once")
    assert len(stream.getvalue().splitlines()) == 1


def state() -> tuple[list[logging.Handler], list[logging.Handler], int, bool]:
    root, own = logging.getLogger(), logging.getLogger("kstreampy")
    return list(root.handlers), list(own.handlers), own.level, own.propagate


@pytest.mark.parametrize("theirs", [False, True])
def test_what_was_set_up_for_a_while_is_undone(theirs: bool) -> None:
    """Also where such whiles overlap: with the last."""
    stream = io.StringIO()
    if theirs:
        logging.basicConfig(stream=io.StringIO(), force=True)
    logging.getLogger("kstreampy").setLevel("WARNING")
    before = state()
    first, second = log.restored(), log.restored()
    with first:
        log.setup(stream=io.StringIO())
        second.__enter__()
        log.setup(stream=stream)
    LOGGER.info("the second goes on")
    assert "the second goes on" in stream.getvalue()
    second.__exit__(None, None, None)
    assert state() == before
    LOGGER.info("quiet")
    assert "quiet" not in stream.getvalue()


def test_masks() -> None:
    kafka = {"sasl.password": "hunter22", "client.id": "hunter22x", "ssl.key.password": ""}
    assert masked("kafka", kafka) == {"sasl.password": MASK, "client.id": "hunter22x", "ssl.key.password": ""}
    assert secret_values(kafka) == ["hunter22"]
    assert redact("a hunter22 b", ["hunter22"]) == f"a {MASK} b"
    assert secret_values({"a.password": "abcd", "b.password": "abcdef"}) == ["abcdef", "abcd"]
