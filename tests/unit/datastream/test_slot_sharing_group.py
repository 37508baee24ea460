"""Slot sharing groups are values; a stream takes them."""

from __future__ import annotations

import pytest

from kstreampy.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from tests.unit.datastream.running import results, stream_of


def test_a_memory_size_in_every_unit() -> None:
    size = MemorySize.of_mebi_bytes(3 * 1024 * 1024)
    assert size.get_bytes() == 3 * 2**40
    assert (size.get_kibi_bytes(), size.get_mebi_bytes()) == (3 * 2**30, 3 * 2**20)
    assert (size.get_gibi_bytes(), size.get_tebi_bytes()) == (3 * 2**10, 3)
    assert MemorySize(2**20 - 1).get_mebi_bytes() == 0
    assert MemorySize(1) < MemorySize.of_mebi_bytes(1) == MemorySize(2**20)


@pytest.mark.parametrize("size", [-1, 1.5, True, None])
def test_what_is_no_memory_size(size: object) -> None:
    with pytest.raises(ValueError, match="must be an int of at least 0"):
        MemorySize(size)  # type: ignore[arg-type]


def test_a_group_with_everything() -> None:
    group = (
        SlotSharingGroup.builder("heavy")
        .set_cpu_cores(1.5)
        .set_task_heap_memory_mb(100)
        .set_task_off_heap_memory_mb(20)
        .set_managed_memory_mb(30)
        .set_external_resource("gpu", 1.0)
        .build()
    )
    assert (group.get_name(), group.get_cpu_cores()) == ("heavy", 1.5)
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(100)
    assert group.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(20)
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(30)
    assert group.get_external_resources() == {"gpu": 1.0}
    assert group != SlotSharingGroup.builder("heavy").build()


def test_a_name_alone_says_nothing_of_resources() -> None:
    group = SlotSharingGroup.builder("light").build()
    assert group == SlotSharingGroup("light")
    assert group.get_cpu_cores() is group.get_task_heap_memory() is group.get_managed_memory() is None
    assert group.get_external_resources() == {}


def test_memory_that_is_not_named_is_none_at_all() -> None:
    group = SlotSharingGroup.builder("some").set_cpu_cores(1).set_task_heap_memory(MemorySize(5)).build()
    assert group.get_task_off_heap_memory() == group.get_managed_memory() == MemorySize(0)


def test_a_builder_goes_on_without_changing_what_it_built() -> None:
    builder = SlotSharingGroup.builder("some").set_cpu_cores(1).set_task_heap_memory_mb(1)
    first = builder.build()
    builder.set_external_resource("gpu", 2.0).set_managed_memory(MemorySize(7))
    assert first.get_external_resources() == {}
    assert first.get_managed_memory() == MemorySize(0)


def test_amounts_that_are_none_are_refused() -> None:
    builder = SlotSharingGroup.builder("some")
    with pytest.raises(ValueError, match="cpu cores should be positive"):
        builder.set_cpu_cores(0)
    with pytest.raises(ValueError, match="heap memory should be positive"):
        builder.set_task_heap_memory_mb(0)
    with pytest.raises(ValueError, match="slot sharing group some: resources need CPU cores and task heap memory"):
        builder.set_task_off_heap_memory(MemorySize(1)).build()
    with pytest.raises(ValueError, match="need CPU cores"):
        SlotSharingGroup.builder("x").set_external_resource("gpu", 1.0).build()
    with pytest.raises(ValueError, match="need CPU cores"):
        SlotSharingGroup.builder("x").set_cpu_cores(1.0).build()


def test_a_stream_takes_a_group_and_runs() -> None:
    group = SlotSharingGroup.builder("heavy").set_cpu_cores(2).set_task_heap_memory_mb(10).build()
    assert results(stream_of([1, 2]).map(lambda value: value + 1).slot_sharing_group(group)) == [2, 3]
