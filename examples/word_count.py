"""Words counted as they come: PyFlink's example `datastream/word_count.py`, written afresh.

Lines are split into words, each word is a 1, and the ones of a word are added up: one result per word read, its count so far.
A job always streams here, so `RuntimeExecutionMode.BATCH`, with which PyFlink's program asks for the last counts only, is left
out; and what has to do with files is imported from the connector.

    kstreampy run examples/word_count.py --bootstrap-servers localhost:9092 -- --input LICENSE --output counts

Without `--input` (a file or a directory) it counts four lines of its own, without `--output` (a directory) it prints.
"""

import argparse
from collections.abc import Iterator

from kstreampy.common import Encoder, Types, WatermarkStrategy
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy_connectors.files import FileSink, FileSource, OutputFileConfig, RollingPolicy, StreamFormat

LINES = [
    "The time has come, the Walrus said,",
    "To talk of many things:",
    "Of shoes--and ships--and sealing-wax--",
    "Of cabbages--and kings--",
]


def words(line: str) -> Iterator[str]:
    yield from line.split()


def word_count(input_path: str | None, output_path: str | None) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    if input_path is None:
        lines = env.from_collection(LINES)
    else:
        files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), input_path).build()
        lines = env.from_source(files, WatermarkStrategy.no_watermarks(), "lines")

    counts = (
        lines.uid("lines")
        .flat_map(words, output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
        .key_by(lambda counted: counted[0])
        .reduce(lambda before, one: (before[0], before[1] + one[1]))
        .uid("counts")
    )

    if output_path is None:
        counts.print()
    else:
        parts = OutputFileConfig.builder().with_part_prefix("counts").with_part_suffix(".txt").build()
        counts.sink_to(
            FileSink.for_row_format(output_path, Encoder.simple_string_encoder())
            .with_output_file_config(parts)
            .with_rolling_policy(RollingPolicy.default_rolling_policy())
            .build()
        ).uid("files")
    env.execute("word-count")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", help="file or directory to read")
    parser.add_argument("--output", help="directory to write to")
    arguments = parser.parse_args()
    word_count(arguments.input, arguments.output)
