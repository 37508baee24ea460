"""A JSON Schema read as a declared type, as Flink's JSON format does. Nothing is validated by it later.

Objects are rows, arrays of one kind are lists, arrays that list their kinds are tuples; integers are BIG_INT
and numbers BIG_DEC, which hold any; `format` date, time and date-time and `contentEncoding` base64 are known;
null beside another type is allowed everywhere. `$ref` into the same document works; `oneOf` and unions of
types do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kstreampy.common.type_information import TypeInformation
from kstreampy.common.typeinfo import RowTypeInfo, Types
from kstreampy.errors import JobError

_MAX_DEPTH = 64


def type_of_json_schema(text: str) -> RowTypeInfo:
    """The row type of the object that the schema describes. `JobError` naming the place that cannot be
    read."""
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, TypeError) as error:
        raise JobError(f"JSON Schema: not JSON: {error}") from error
    info = _Reader(schema).read(schema, "#", 0)
    if not isinstance(info, RowTypeInfo):
        raise JobError("JSON Schema: must describe an object ('type': 'object' with 'properties')")
    return info


class _Reader:
    def __init__(self, document: Any) -> None:
        self._document = document

    def read(self, schema: Any, place: str, depth: int) -> TypeInformation:
        if not isinstance(schema, Mapping):
            raise JobError(f"JSON Schema: {place} must be an object, not {schema!r:.100}")
        if depth > _MAX_DEPTH:
            raise JobError(f"JSON Schema: {place} refers to itself; recursive types cannot be declared")
        if "$ref" in schema:
            return self.read(self._referred(schema["$ref"], place), schema["$ref"], depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [item for item in kind if item != "null"]
            kind = kinds[0] if len(kinds) == 1 else kind
        if kind == "object":
            return self._object(schema, place, depth)
        if kind == "array":
            return self._array(schema, place, depth)
        if kind == "string":
            return _string(schema)
        scalars = {
            "integer": Types.BIG_INT,
            "number": Types.BIG_DEC,
            "boolean": Types.BOOLEAN,
            "null": Types.STRING,
        }
        if not isinstance(kind, str) or kind not in scalars:
            raise JobError(
                f"JSON Schema: {place} has type {kind!r}: give one of object, array, string, integer, number, boolean"
            )
        return scalars[kind]()

    def _object(self, schema: Mapping[str, Any], place: str, depth: int) -> TypeInformation:
        fields = schema.get("properties")
        if not isinstance(fields, Mapping) or not fields:
            raise JobError(f"JSON Schema: {place} is an object without 'properties'")
        types = [self.read(field, f"{place}/properties/{name}", depth + 1) for name, field in fields.items()]
        return Types.ROW_NAMED(list(fields), types)

    def _array(self, schema: Mapping[str, Any], place: str, depth: int) -> TypeInformation:
        items = schema.get("items")
        if isinstance(items, list):
            return Types.TUPLE([self.read(item, f"{place}/items/{i}", depth + 1) for i, item in enumerate(items)])
        if items is None:
            raise JobError(f"JSON Schema: {place} is an array without 'items'")
        return Types.OBJECT_ARRAY(self.read(items, f"{place}/items", depth + 1))

    def _referred(self, reference: Any, place: str) -> Any:
        found = self._document
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise JobError(f"JSON Schema: {place} refers to {reference!r}: only places in the same document work")
        for step in reference.removeprefix("#").strip("/").split("/"):
            if step and (not isinstance(found, Mapping) or step not in found):
                raise JobError(f"JSON Schema: {place} refers to {reference!r}, which is not there")
            found = found[step] if step else found
        return found


def _string(schema: Mapping[str, Any]) -> TypeInformation:
    if schema.get("contentEncoding") == "base64":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    formats = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}
    made = formats.get(schema.get("format", ""))
    return Types.STRING() if made is None else made()
