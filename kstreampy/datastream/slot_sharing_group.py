"""`SlotSharingGroup` and `MemorySize`, under PyFlink's path: what a program says of the resources that steps shall have.

There are no slots here: `stream.slot_sharing_group` takes such a group and keeps it, so that a program that has one runs.
What a worker may use is set by its container.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["MemorySize", "SlotSharingGroup"]


@dataclass(frozen=True, slots=True, order=True)
class MemorySize:
    """An amount of memory in bytes, 0 or more. The larger units are rounded down."""

    bytes_size: int

    def __post_init__(self) -> None:
        if type(self.bytes_size) is not int or self.bytes_size < 0:
            raise ValueError(f"a memory size must be an int of at least 0, not {self.bytes_size!r}")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        return self.bytes_size >> 40


@dataclass(frozen=True)
class SlotSharingGroup:
    """A name and, if it says so, resources: then CPU cores and heap memory are there, and the other amounts are at least 0.
    Made by `builder`."""

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        return self.name

    def get_cpu_cores(self) -> float | None:
        return self.cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        return self.task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        return self.managed_memory

    def get_external_resources(self) -> dict[str, float]:
        return dict(self.external_resources)

    class Builder:
        """Every setter returns the builder. ValueError for amounts that are no amounts."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._memory: dict[str, MemorySize] = {}
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            if cpu_cores <= 0:
                raise ValueError("The cpu cores should be positive.")
            self._cpu_cores = cpu_cores
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            if task_heap_memory.get_bytes() == 0:
                raise ValueError("The task heap memory should be positive.")
            return self._remember("task_heap_memory", task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            return self._remember("task_off_heap_memory", task_off_heap_memory)

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            return self._remember("managed_memory", managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            self._external_resources[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """ValueError if there are resources, but no CPU cores or no heap memory."""
            if self._cpu_cores is not None and "task_heap_memory" in self._memory:
                none = MemorySize(0)
                memory = {"task_off_heap_memory": none, "managed_memory": none, **self._memory}
                return SlotSharingGroup(
                    self._name, self._cpu_cores, external_resources=dict(self._external_resources), **memory
                )
            if self._cpu_cores is not None or self._memory or self._external_resources:
                raise ValueError(f"slot sharing group {self._name}: resources need CPU cores and task heap memory")
            return SlotSharingGroup(self._name)

        def _remember(self, name: str, amount: MemorySize) -> SlotSharingGroup.Builder:
            self._memory[name] = amount
            return self
