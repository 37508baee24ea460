"""Sources and sinks, under PyFlink's paths. External systems other than Kafka are in the `connectors/`
package."""

from kstreampy.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
