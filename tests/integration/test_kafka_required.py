"""Where brokers are required, a missing one fails the tests instead of skipping them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers import find


def test_missing_broker_skips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KSTREAMPY_TEST_REQUIRE_BROKERS", raising=False)
    monkeypatch.setattr(find, "installed", lambda: False)
    with pytest.raises(pytest.skip.Exception, match="not installed"), find.embedded(tmp_path):
        pass


def test_missing_broker_fails_where_required(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KSTREAMPY_TEST_REQUIRE_BROKERS", "1")
    monkeypatch.setattr(find, "missing", lambda: "no java")
    with pytest.raises(pytest.fail.Exception, match="no java"), find.own_kafka(tmp_path):
        pass


def test_broker_that_is_given_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KSTREAMPY_TEST_BOOTSTRAP", "given:9092")
    with find.real_kafka(tmp_path) as bootstrap:
        assert bootstrap == "given:9092"
