"""Sources and sinks, under PyFlink's paths. External systems other than Kafka are in the `connectors/`
package.

As in PyFlink, `KafkaSource` and `NumberSequenceSource` can be imported from here too; for those of files, an ImportError says
where they are (`file_system.py`)."""

from importlib import import_module
from typing import TYPE_CHECKING

from kstreampy.common import left_out
from kstreampy.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

if not TYPE_CHECKING:  # a type checker knows each name where it is defined
    _ELSEWHERE = {"KafkaSource": "kafka", "NumberSequenceSource": "number_seq"}

    def __getattr__(name: str) -> object:
        """Imported when they are asked for: their modules need this one."""
        if name in _ELSEWHERE:
            return getattr(import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
        file_system = import_module(f"{__name__}.file_system")
        if name in file_system.NAMES:
            return getattr(file_system, name)
        return left_out.of_module(__name__)(name)
