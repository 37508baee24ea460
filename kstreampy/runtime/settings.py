"""All settings of a worker: their types, defaults and checks, as one frozen object made when a job starts.

Where the values come from, and which of them wins, is in `settings_source.py`; Flink's names for them are in
`settings_flink.py`. Not in here: what a setting does. That is beside the code which reads it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kstreampy.eventtime.future import FuturePolicy
from kstreampy.observe.secret import masked, secret_values
from kstreampy.runtime.settings_kafka import check_kafka_keys, flatten_kafka
from kstreampy.runtime.settings_memory import MemoryBudget, memory_budget
from kstreampy.runtime.settings_units import duration_ms, duration_s, size_bytes

Guarantee = Literal["exactly_once", "at_least_once"]
GroupProtocol = Literal["auto", "consumer", "classic"]

_CHECKPOINT_INTERVAL_MS: Final = {"exactly_once": 500, "at_least_once": 1_000}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_TOKEN: Final = re.compile(r"[!-~]{16,1000}")
_LONGEST_APPLICATION_ID: Final = 120
"""Kafka's topic names end at 249 characters, and an operator's uid and a purpose follow the application
id."""


def _word(value: object) -> object:
    """`EXACTLY_ONCE`, `exactly-once` and `exactly_once` are one word."""
    return value.strip().lower().replace("-", "_") if isinstance(value, str) else value


def _transaction_timeout_ms(checkpoint_interval: object) -> int:
    """Twice the interval, within what brokers allow (`transaction.max.timeout.ms`, 15 minutes by default)."""
    try:
        interval_ms = duration_ms(checkpoint_interval)
    except ValueError:  # told by the interval's own check
        return 30_000
    return min(max(30_000, 2 * interval_ms), 900_000) if isinstance(interval_ms, int) else 30_000


def _names(value: object) -> object:
    """`a,b` and `["a", "b"]` are the same two names."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, Iterable):
        return tuple(name.strip() for item in value for name in str(item).split(",") if name.strip())
    return value


Milliseconds = Annotated[int, BeforeValidator(duration_ms), Field(gt=0)]
Seconds = Annotated[float, BeforeValidator(duration_s), Field(gt=0)]
Bytes = Annotated[int, BeforeValidator(size_bytes), Field(gt=0)]


class Settings(BaseSettings):
    """What a worker runs with. Made by `settings_source.resolve`, or by hand with keywords; never changes
    afterwards.

    Only `application_id` is required. Durations take text such as `500ms` or `2min`, sizes take `512MiB`. A
    wrong value raises pydantic's ValidationError (`resolve` turns it into a JobError that says where the
    value came from), a client setting that a guarantee needs raises JobError.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", validate_default=True)

    application_id: str = Field(description="names the job's groups, topics and local state")
    bootstrap_servers: str | None = Field(
        None, description="Kafka's addresses, host:port,...; without it the job runs on an in-memory log"
    )
    workers: int = Field(1, ge=1, le=1024, description="processes on this machine")
    stages: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        (), description="the stages that this worker runs; none named: all"
    )
    state_dir: Path = Field(description="where this worker keeps its local state; one worker per directory")
    guarantee: Annotated[Guarantee, BeforeValidator(_word)] = Field(
        "exactly_once", description="exactly_once or at_least_once"
    )
    checkpoint_interval_ms: Milliseconds = Field(
        description="time between checkpoints (default: 500 ms exactly_once, 1 s at_least_once)"
    )
    max_parallelism: int = Field(
        12,
        ge=1,
        le=32768,
        description="key groups of keyed operators, fixed once their topics are made",
    )
    http_host: str = Field("127.0.0.1", min_length=1, description="where metrics and probes are served")
    http_port: int | None = Field(None, ge=1, le=65535, description="port of metrics and probes; 0: none")
    http_token: str | None = Field(
        None,
        description="who asks for state must know it, 16 or more visible ASCII characters; without it only this machine may ask",
    )
    worker_id: str | None = Field(
        None, description="stable name of this worker (default: an id kept in the state directory)"
    )
    group_protocol: Annotated[GroupProtocol, BeforeValidator(_word)] = Field(
        "auto", description="auto, consumer (KIP-848) or classic"
    )
    session_timeout_ms: Milliseconds = Field(45_000, description="silence after which a worker is gone")
    transaction_timeout_ms: Milliseconds = Field(
        description="after which the broker aborts a transaction (default: 30 s, more for long intervals)"
    )
    shutdown_timeout_s: Seconds = Field(
        25.0, description="budget from SIGTERM to the end; keep it below the pod's grace period"
    )
    broker_timeout_s: Seconds = Field(120.0, description="how long a lost broker is waited for")
    stall_timeout_s: Seconds = Field(120.0, description="no progress for so long, with work there: not live")
    state_memory_bytes: Bytes | None = Field(
        None, description="memory of this worker's state (default: a share of the container's limit)"
    )
    cache_bytes: Bytes | None = Field(None, description="of the state memory, for objects (default: two thirds)")
    dirty_bytes: Bytes | None = Field(
        None, description="changed state that brings the next checkpoint forward (default: from the cache)"
    )
    watermark_interval_ms: Annotated[int, BeforeValidator(duration_ms), Field(ge=0)] = Field(
        200, description="between periodic watermarks; 0: only those that a generator emits for a record"
    )
    idle_timeout_ms: Milliseconds | None = Field(
        None,
        description="a source partition at its end and silent for so long holds no watermark back, "
        "where the strategy has no `with_idleness`",
    )
    max_future_ms: Milliseconds | None = Field(
        None, description="how far a record's timestamp may be ahead of the clock (default: any)"
    )
    max_future_policy: Annotated[FuturePolicy, BeforeValidator(_word)] = Field(
        "drop_from_watermark",
        description="for timestamps further ahead: drop_from_watermark (the record passes, and moves no watermark), "
        "clamp (to the limit) or fail",
    )
    restart_workers: bool = Field(
        False, description="with several workers: start a crashed one again instead of ending all"
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_word)] = Field(
        "info", description="debug, info, warning, error or critical"
    )
    log_format: Annotated[Literal["text", "json"], BeforeValidator(_word)] = Field(
        "text", description="text or json, on standard error"
    )
    kafka: dict[str, str] = Field({}, description="settings handed to the Kafka client")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Keywords only: the layers are read by `resolve`, which keeps where each value came from."""
        return (init_settings,)

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)

    @model_validator(mode="before")
    @classmethod
    def _fill_derived(cls, values: dict[str, Any]) -> dict[str, Any]:
        filled = {name: value for name, value in values.items() if value is not None}
        guarantee = _word(filled.get("guarantee", "exactly_once"))
        if "checkpoint_interval_ms" not in filled:
            filled["checkpoint_interval_ms"] = _CHECKPOINT_INTERVAL_MS.get(str(guarantee), 500)
        if "transaction_timeout_ms" not in filled:
            filled["transaction_timeout_ms"] = _transaction_timeout_ms(filled["checkpoint_interval_ms"])
        if "state_dir" not in filled and "application_id" in filled:
            filled["state_dir"] = default_state_dir(str(filled["application_id"]), os.environ)
        return filled

    @field_validator("application_id", "worker_id")
    @classmethod
    def _check_name(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not _NAME.fullmatch(value) or value in {".", ".."}:
            raise ValueError("may have letters, digits, '.', '_' and '-' only")
        if len(value) > _LONGEST_APPLICATION_ID:
            raise ValueError(f"is longer than {_LONGEST_APPLICATION_ID} characters")
        return value

    @field_validator("bootstrap_servers", mode="before")
    @classmethod
    def _join_servers(cls, value: object) -> object:
        return ",".join(names) or None if isinstance(names := _names(value), tuple) else value

    @field_validator("http_port", mode="before")
    @classmethod
    def _zero_is_off(cls, value: object) -> object:
        return None if value in (0, "0") else value

    @field_validator("http_token")
    @classmethod
    def _check_token(cls, value: str | None) -> str | None:
        if value is not None and not _TOKEN.fullmatch(value):
            raise ValueError("must be 16 or more letters, digits and other visible ASCII characters, without spaces")
        return value

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("kafka", mode="before")
    @classmethod
    def _check_kafka(cls, value: object) -> dict[str, str]:
        flat = flatten_kafka(value, "code")
        check_kafka_keys(flat, "code")
        return flat

    @model_validator(mode="after")
    def _check_together(self) -> Settings:
        exact = self.guarantee == "exactly_once"
        if exact and self.transaction_timeout_ms <= self.checkpoint_interval_ms:
            raise ValueError(
                f"transaction_timeout_ms ({self.transaction_timeout_ms}) must be longer than "
                f"checkpoint_interval_ms ({self.checkpoint_interval_ms}), or the broker aborts checkpoints"
            )
        return self

    @property
    def memory(self) -> MemoryBudget:
        """How this worker's memory is divided; reads the container's limit where nothing is set."""
        return memory_budget(self.state_memory_bytes, self.cache_bytes, self.dirty_bytes, workers=self.workers)

    def secrets(self) -> list[str]:
        """The values that must never be shown, for the log's filter."""
        return secret_values({**self.kafka, "http_token": self.http_token})

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, masked(name or "", value)


def default_state_dir(application_id: str, env: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/kstreampy/<application_id>`, with `~/.local/state` where the variable is not set."""
    home = env.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "kstreampy" / application_id


def name_from(text: str) -> str:
    """A valid application id made of any text (a file's stem, a job's name)."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")
    return cleaned[:_LONGEST_APPLICATION_ID] or "job"
