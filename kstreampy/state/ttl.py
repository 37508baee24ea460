"""How long state is kept after it was last used: `StateTtlConfig`, under PyFlink's names.

In here: the configuration, plain data made by the user with `StateTtlConfig.new_builder(Time.hours(1))`. Not in here: how
it is kept to (`stamped.py`, `expiry.py`).

An entry (a value, an element of a list, an entry of a map, an accumulator) is expired when its last access plus the TTL is
not later than the clock. The configuration is no part of what is stored: it may be changed, and switched on and off, from
one start of the job to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, TypeAlias, TypeVar

from kstreampy.common.time import Amount, Duration, Time, to_millis

_M = TypeVar("_M", bound=Enum)


class UpdateType(Enum):
    """What counts as an access that keeps an entry alive."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class StateVisibility(Enum):
    """Whether an expired entry that is still there may be seen: once, since the read that finds it removes it."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class TtlTimeCharacteristic(Enum):
    """By which clock: the machine's."""

    ProcessingTime = 0


class Strategies(Enum):
    FULL_STATE_SCAN_SNAPSHOT = 0
    INCREMENTAL_CLEANUP = 1
    ROCKSDB_COMPACTION_FILTER = 2


class CleanupStrategy:
    """How expired state is cleaned up."""


class EmptyCleanupStrategy(CleanupStrategy):
    """Nothing to say about it."""


class IncrementalCleanupStrategy(CleanupStrategy):
    """Some entries at a time."""

    def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
        if cleanup_size <= 0:
            raise ValueError(f"cleanup_size is how many entries are looked at at once: 1 or more, not {cleanup_size}")
        self._cleanup_size = cleanup_size
        self._run_cleanup_for_every_record = run_cleanup_for_every_record

    def get_cleanup_size(self) -> int:
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        return self._run_cleanup_for_every_record


class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
    """As the store compacts its files."""

    def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None) -> None:
        self._query_time_after_num_entries = query_time_after_num_entries
        self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

    def get_query_time_after_num_entries(self) -> int:
        return self._query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Duration:
        return self._periodic_compaction_time


# Under the same names, they are also parts of the classes below.
_Strategies: TypeAlias = Strategies
_CleanupStrategy: TypeAlias = CleanupStrategy
_EmptyCleanupStrategy: TypeAlias = EmptyCleanupStrategy
_IncrementalCleanupStrategy: TypeAlias = IncrementalCleanupStrategy
_RocksdbCompactFilterCleanupStrategy: TypeAlias = RocksdbCompactFilterCleanupStrategy


class CleanupStrategies:
    """What was asked for. Here there is one way of cleaning up, whatever was asked for: an access that finds an entry
    expired removes it, and at each checkpoint some entries of the state are looked at in turn, so that all of it goes
    from the store and the changelog, also in tasks that get no records. `disable_cleanup_in_background` switches off the
    second."""

    Strategies: TypeAlias = _Strategies
    CleanupStrategy: TypeAlias = _CleanupStrategy
    EmptyCleanupStrategy: TypeAlias = _EmptyCleanupStrategy
    IncrementalCleanupStrategy: TypeAlias = _IncrementalCleanupStrategy
    RocksdbCompactFilterCleanupStrategy: TypeAlias = _RocksdbCompactFilterCleanupStrategy
    EMPTY_STRATEGY: ClassVar[EmptyCleanupStrategy] = _EmptyCleanupStrategy()

    def __init__(self, strategies: Mapping[Strategies, CleanupStrategy], is_cleanup_in_background: bool) -> None:
        self._strategies = dict(strategies)
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        return Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """The one asked for, Flink's default (5 entries) otherwise, None when nothing is cleaned up in the background."""
        default = IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None
        found = self._strategies.get(Strategies.INCREMENTAL_CLEANUP, default)
        assert found is None or isinstance(found, IncrementalCleanupStrategy)
        return found

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactFilterCleanupStrategy | None:
        """As `get_incremental_cleanup_strategy`; Flink's default asks the clock every 1,000 entries."""
        default = RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None
        found = self._strategies.get(Strategies.ROCKSDB_COMPACTION_FILTER, default)
        assert found is None or isinstance(found, RocksdbCompactFilterCleanupStrategy)
        return found


class Builder:
    """Made by `StateTtlConfig.new_builder`. Unless told otherwise: writes keep an entry alive, an expired one is never
    seen, and expired state is cleaned up in the background."""

    def __init__(self, ttl: Amount) -> None:
        """ValueError unless the time is positive."""
        self._update_type = UpdateType.OnCreateAndWrite
        self._state_visibility = StateVisibility.NeverReturnExpired
        self._ttl_time_characteristic = TtlTimeCharacteristic.ProcessingTime
        self._is_cleanup_in_background = True
        self._strategies: dict[Strategies, CleanupStrategy] = {}
        self._ttl = _positive(ttl)

    def set_update_type(self, update_type: UpdateType) -> Builder:
        self._update_type = _member(UpdateType, update_type)
        return self

    def update_ttl_on_create_and_write(self) -> Builder:
        return self.set_update_type(UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> Builder:
        return self.set_update_type(UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: StateVisibility) -> Builder:
        self._state_visibility = _member(StateVisibility, state_visibility)
        return self

    def return_expired_if_not_cleaned_up(self) -> Builder:
        return self.set_state_visibility(StateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> Builder:
        return self.set_state_visibility(StateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: TtlTimeCharacteristic) -> Builder:
        self._ttl_time_characteristic = _member(TtlTimeCharacteristic, ttl_time_characteristic)
        return self

    def use_processing_time(self) -> Builder:
        return self.set_ttl_time_characteristic(TtlTimeCharacteristic.ProcessingTime)

    def cleanup_full_snapshot(self) -> Builder:
        self._strategies[Strategies.FULL_STATE_SCAN_SNAPSHOT] = CleanupStrategies.EMPTY_STRATEGY
        return self

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> Builder:
        self._strategies[Strategies.INCREMENTAL_CLEANUP] = IncrementalCleanupStrategy(
            cleanup_size, run_cleanup_for_every_record
        )
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
    ) -> Builder:
        self._strategies[Strategies.ROCKSDB_COMPACTION_FILTER] = RocksdbCompactFilterCleanupStrategy(
            query_time_after_num_entries, periodic_compaction_time
        )
        return self

    def disable_cleanup_in_background(self) -> Builder:
        self._is_cleanup_in_background = False
        return self

    def set_ttl(self, ttl: Amount) -> Builder:
        self._ttl = _positive(ttl)
        return self

    def build(self) -> StateTtlConfig:
        return StateTtlConfig(
            self._update_type,
            self._state_visibility,
            self._ttl_time_characteristic,
            self._ttl,
            CleanupStrategies(self._strategies, self._is_cleanup_in_background),
        )


_UpdateType: TypeAlias = UpdateType
_StateVisibility: TypeAlias = StateVisibility
_TtlTimeCharacteristic: TypeAlias = TtlTimeCharacteristic
_Builder: TypeAlias = Builder
_CleanupStrategies: TypeAlias = CleanupStrategies


class StateTtlConfig:
    """See the module. Given to a descriptor by `enable_time_to_live`."""

    UpdateType: TypeAlias = _UpdateType
    StateVisibility: TypeAlias = _StateVisibility
    TtlTimeCharacteristic: TypeAlias = _TtlTimeCharacteristic
    Builder: TypeAlias = _Builder
    CleanupStrategies: TypeAlias = _CleanupStrategies
    DISABLED: ClassVar[StateTtlConfig]
    """State is kept for ever."""

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: Amount,
        cleanup_strategies: CleanupStrategies,
    ) -> None:
        """ValueError unless the time is positive."""
        self._update_type = _member(UpdateType, update_type)
        self._state_visibility = _member(StateVisibility, state_visibility)
        self._ttl_time_characteristic = _member(TtlTimeCharacteristic, ttl_time_characteristic)
        self._ttl = _positive(ttl)
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Amount) -> Builder:
        return Builder(ttl)

    def get_update_type(self) -> UpdateType:
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        return self._state_visibility

    def get_ttl(self) -> Time:
        return self._ttl

    def get_time_to_live(self) -> Duration:
        """As `get_ttl`, in Java's newer form."""
        return Duration.of_millis(self._ttl.to_milliseconds())

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        return self._update_type is not UpdateType.Disabled

    def get_cleanup_strategies(self) -> CleanupStrategies:
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig(update_type={self._update_type.name}, state_visibility={self._state_visibility.name}, "
            f"ttl={self._ttl!r})"
        )


def _positive(ttl: Amount) -> Time:
    ttl_ms = to_millis(ttl)
    if ttl_ms <= 0:
        raise ValueError(f"a TTL must be at least 1 ms, not {ttl!r}")
    return Time.milliseconds(ttl_ms)


def _member(enum: type[_M], value: Any) -> _M:
    if not isinstance(value, enum):
        raise TypeError(f"expected a StateTtlConfig.{enum.__name__}, not {value!r}")
    return value


StateTtlConfig.DISABLED = StateTtlConfig(
    UpdateType.Disabled,
    StateVisibility.NeverReturnExpired,
    TtlTimeCharacteristic.ProcessingTime,
    Time.milliseconds(2**63 - 1),
    CleanupStrategies({}, False),
)
