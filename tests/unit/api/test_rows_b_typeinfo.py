"""PyFlink's types, rows and amounts of time, with their parameters."""

from __future__ import annotations

import pytest

from tests.unit.api.row import Row, check, rows

ROWS = [
    *rows(
        "common.typeinfo",
        """
TypeInformation
    need_conversion()
    to_internal_type(obj)
    from_internal_type(obj)
BasicType  (Enum)
    STRING
    BYTE
    BOOLEAN
    SHORT
    INT
    LONG
    FLOAT
    DOUBLE
    CHAR
    BIG_INT
    BIG_DEC
    INSTANT
BasicTypeInfo  (TypeInformation)
    __init__(basic_type)
    static STRING_TYPE_INFO()
    static BOOLEAN_TYPE_INFO()
    static BYTE_TYPE_INFO()
    static SHORT_TYPE_INFO()
    static INT_TYPE_INFO()
    static LONG_TYPE_INFO()
    static FLOAT_TYPE_INFO()
    static DOUBLE_TYPE_INFO()
    static CHAR_TYPE_INFO()
    static BIG_INT_TYPE_INFO()
    static BIG_DEC_TYPE_INFO()
    static INSTANT_TYPE_INFO()
InstantTypeInfo  (BasicTypeInfo)
    __init__(basic_type)
    need_conversion()
    to_internal_type(obj)
    from_internal_type(obj)
SqlTimeTypeInfo
    static DATE()
    static TIME()
    static TIMESTAMP()
PrimitiveArrayTypeInfo  (TypeInformation)
    __init__(element_type)
BasicArrayTypeInfo  (TypeInformation)
    __init__(element_type)
ObjectArrayTypeInfo  (TypeInformation)
    __init__(element_type)
PickledBytesTypeInfo  (TypeInformation)
RowTypeInfo  (TypeInformation)
    __init__(field_types, field_names=None)
    get_field_names()
    get_field_index(field_name)
    get_field_types()
    need_conversion()
    to_internal_type(obj)
    from_internal_type(obj)
TupleTypeInfo  (TypeInformation)
    __init__(field_types)
    get_field_types()
    need_conversion()
    to_internal_type(obj)
    from_internal_type(obj)
DateTypeInfo  (TypeInformation)
    EPOCH_ORDINAL
    need_conversion()
    to_internal_type(d)
    from_internal_type(v)
TimeTypeInfo  (TypeInformation)
    EPOCH_ORDINAL
    need_conversion()
    to_internal_type(t)
    from_internal_type(t)
TimestampTypeInfo  (TypeInformation)
    need_conversion()
    to_internal_type(dt)
    from_internal_type(ts)
ListTypeInfo  (TypeInformation)
    __init__(element_type)
MapTypeInfo  (TypeInformation)
    __init__(key_type_info, value_type_info)
LocalTimeTypeInfo  (TypeInformation)
    __init__(time_type)
LocalTimeTypeInfo.TimeType  (Enum)
    LOCAL_DATE
    LOCAL_TIME
    LOCAL_DATE_TIME
ExternalTypeInfo  (TypeInformation)
    __init__(type_info)
Types
    static STRING()
    static BYTE()
    static BOOLEAN()
    static SHORT()
    static INT()
    static LONG()
    static FLOAT()
    static DOUBLE()
    static CHAR()
    static BIG_INT()
    static BIG_DEC()
    static INSTANT()
    static SQL_DATE()
    static SQL_TIME()
    static SQL_TIMESTAMP()
    static PICKLED_BYTE_ARRAY()
    static ROW(field_types)
    static ROW_NAMED(field_names, field_types)
    static TUPLE(field_types)
    static PRIMITIVE_ARRAY(element_type)
    static BASIC_ARRAY(element_type)
    static OBJECT_ARRAY(element_type)
    static MAP(key_type_info, value_type_info)
    static LIST(element_type_info)
""",
    ),
    *rows(
        "common.types",
        """
RowKind  (Enum)
    INSERT
    UPDATE_BEFORE
    UPDATE_AFTER
    DELETE
Row
    __init__(*args, **kwargs)
    as_dict(recursive=False)
    get_row_kind()
    set_row_kind(row_kind)
    set_field_names(field_names)
    get_fields_by_names(names)
    static of_kind(row_kind, *args, **kwargs)
    __contains__(item)
    __getitem__(item)
    __setitem__(key, value)
    __iter__()
""",
    ),
    *rows(
        "common.time",
        """
Duration
    static of_days(days)
    static of_hours(hours)
    static of_millis(millis)
    static of_minutes(minutes)
    static of_nanos(nanos)
    static of_seconds(seconds)
Instant
    __init__(seconds, nanos)
    to_epoch_milli()
    static of_epoch_milli(epoch_milli)
Time
    __init__(milliseconds)
    to_milliseconds()
    static milliseconds(milliseconds)
    static seconds(seconds)
    static minutes(minutes)
    static hours(hours)
    static days(days)
""",
    ),
    *rows(
        "common.watermark_strategy",
        """
WatermarkStrategy
    with_timestamp_assigner(timestamp_assigner)
    with_idleness(idle_timeout)
    with_watermark_alignment(watermark_group, max_allowed_watermark_drift, update_interval=None)
    static for_monotonous_timestamps()
    static for_bounded_out_of_orderness(max_out_of_orderness)
    static no_watermarks()
TimestampAssigner
    extract_timestamp(value, record_timestamp)
""",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_row_is_there(row: Row) -> None:
    check(row)
