"""`make demo`: the job `flights.py` on a broker of its own, its results as they change, and a check of them at the end.

In here: starting and stopping broker and job, following the two topics that the job writes, the summary. Not in here: the
job itself (`flights.py`), and how results are shown and checked (`board.py`). Needs nothing but Python and `.[demo]`.
"""

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import msgspec
from board import Board, Result, differences, expected
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from flights import BRANCHES, flights_file

from kstreampy.broker.embedded import EmbeddedBroker
from kstreampy.errors import KStreamError

HERE = Path(__file__).parent
PARTITIONS = 4
REDRAW_S = 0.25
LINE_S = 1.0
PATIENCE_S = 30.0


class Follower:
    """Reads the committed results of both topics from their beginning, into a board."""

    def __init__(self, bootstrap: str, board: Board) -> None:
        self._board = board
        self._decode = msgspec.json.Decoder(Result).decode
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "flights-demo-follower",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 10,
            }
        )
        self._partitions = [(topic, number) for topic in BRANCHES.values() for number in range(PARTITIONS)]
        self._ends = 0
        self._consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in self._partitions])

    def read(self, seconds: float) -> None:
        """Takes what comes within so many seconds."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for message in self._consumer.consume(2000, min(left, 0.05)):
                error = message.error()
                if error is None:
                    self._board.take(str(message.topic()), self._decode(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._ends += 1
                else:
                    raise KafkaException(error)

    def read_to_the_end(self) -> None:
        """The job has ended: takes what is left. Partitions that are assigned anew tell their end once."""
        at = self._consumer.position([TopicPartition(*partition) for partition in self._partitions])
        for partition in at:
            partition.offset = max(partition.offset, 0)
        self._ends = 0
        self._consumer.assign(at)
        deadline = time.monotonic() + PATIENCE_S
        while self._ends < len(self._partitions) and time.monotonic() < deadline:
            self.read(0.1)

    def close(self) -> None:
        self._consumer.close()


def create_topics(bootstrap: str) -> None:
    topics = [NewTopic(topic, PARTITIONS, 1) for topic in BRANCHES.values()]
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept until its answers are there
    for created in admin.create_topics(topics).values():
        created.result(PATIENCE_S)


@contextlib.contextmanager
def running_job(bootstrap: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The job as a process of its own; stopped as a deploy would stop it if it has not ended by itself."""
    command = [sys.executable, "-m", "kstreampy_cli", "run", str(HERE / "flights.py")]
    command += ["--bootstrap-servers", bootstrap, "--application-id", "flights-demo"]
    command += ["--state-dir", str(directory / "state")]
    with (directory / "job.log").open("wb") as log:
        # A session of its own: Ctrl-C reaches this process alone, which then stops the job before the broker.
        job = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield job
    finally:
        if job.poll() is None:
            job.terminate()
            job.wait(PATIENCE_S)


def follow(bootstrap: str, directory: Path, board: Board) -> float:
    """Runs the job to its end while the results are shown; the seconds that it took. SystemExit when it failed."""
    began = time.monotonic()
    with running_job(bootstrap, directory) as job, contextlib.closing(Follower(bootstrap, board)) as follower:
        while job.poll() is None:
            follower.read(REDRAW_S if board.redraws else LINE_S)
            board.show(time.monotonic() - began)
        took = time.monotonic() - began
        if job.returncode != 0:
            end = (directory / "job.log").read_text(errors="replace").splitlines()[-15:]
            print("\n".join(["", *end, f"The job ended with exit code {job.returncode}."]), file=sys.stderr)
            raise SystemExit(1)
        follower.read_to_the_end()
        board.show(time.monotonic() - began)
    return took


def demo(directory: Path) -> int:
    print("Starting the embedded broker and the job examples/flights.py (exactly-once) …")
    board = Board(sys.stdout)
    with EmbeddedBroker(directory / "broker") as broker:
        create_topics(broker.bootstrap_servers)
        took = follow(broker.bootstrap_servers, directory, board)
    print("\nChecking against plain Python on the same file …")
    wanted = expected(flights_file(), BRANCHES)
    flights = sum(result.flights for result in wanted[BRANCHES["origin"]].values())
    print(
        f"{flights:,} flights read, counted by airport and by airline, {board.results:,} results committed in {took:.1f} s, "
        f"start and stop included: {flights / took:,.0f} flights/s, {board.results / took:,.0f} results/s."
    )
    wrong = differences(board, wanted)
    if wrong:
        print("MISMATCH:", *wrong, sep="\n  ")
        return 1
    totals = sum(map(len, wanted.values()))
    print(f"All {totals} totals and means equal plain Python's; no result came twice, none is missing.")
    return 0


def interrupted(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the demo the way Ctrl-C does."""
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGTERM, interrupted)
    root = HERE.parent / ".demo"
    root.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=root))
    try:
        code = demo(directory)
    except KeyboardInterrupt:
        print("\nStopped: the job has committed what it had done, the broker is down.")
        code = 130
    except KStreamError as error:
        print(f"The demo cannot run: {error}", file=sys.stderr)
        return 1
    except SystemExit:
        print(f"Its log, its state and the broker's data are in {directory}.", file=sys.stderr)
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
