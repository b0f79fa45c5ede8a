"""The embedded broker: publishing and claiming between real processes, and what breaks on disk."""

import errno
import json
import multiprocessing
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.exceptions import ChannelError

PUBLISHERS, MESSAGES_EACH = 4, 1000
spawn = multiprocessing.get_context("spawn")


def connect(folder: Path) -> Connection:
    return Connection(
        "filesystem://",
        transport="config.filesystem_broker:Transport",
        transport_options={"folder": str(folder), "polling_interval": 0.02},
    )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Connection]:
    with connect(tmp_path / "broker") as connection:
        yield connection


def publish(connection: Connection, queue: str, *bodies: Any) -> None:
    producer = Producer(connection.default_channel)
    for body in bodies:
        producer.publish(body, routing_key=queue, exchange="")


def channel_of(connection: Connection) -> Any:
    return connection.default_channel  # Any: the stubs know only AMQP's channel


def drain(connection: Connection, queue: str) -> list[Any]:
    """Take and acknowledge what lies in the queue now."""
    channel = channel_of(connection)
    bodies = []
    while (message := channel.basic_get(queue)) is not None:
        message.ack()
        bodies.append(message.decode())
    return bodies


def queue_folder(tmp_path: Path, queue: str) -> Path:
    return tmp_path / "broker" / "queues" / f"q-{queue}"


def publish_many(folder: Path, publisher: int, all_here: Any = None) -> None:
    with connect(folder) as connection:
        if all_here is not None:
            all_here.wait()
        publish(connection, "runs", *([publisher, number] for number in range(MESSAGES_EACH)))


def consume_until_quiet(folder: Path, out: Path, all_here: Any, published: Any) -> None:
    """A tight poller: takes what it gets until all publishers are done and the queue stays empty."""
    with connect(folder) as connection:
        all_here.wait()
        taken: list[Any] = []
        while True:
            over = published.is_set()
            batch = drain(connection, "runs")
            taken += batch
            if over and not batch:
                break
        out.write_text(json.dumps(taken))


def test_four_publishers_and_two_tight_pollers_lose_and_double_nothing(tmp_path: Path) -> None:
    folder, all_here, published = (
        tmp_path / "broker",
        spawn.Barrier(PUBLISHERS + 2, timeout=120),
        spawn.Event(),
    )
    pollers = [
        spawn.Process(
            target=consume_until_quiet, args=(folder, tmp_path / f"taken{index}", all_here, published)
        )
        for index in range(2)
    ]
    publishers = [
        spawn.Process(target=publish_many, args=(folder, index, all_here)) for index in range(PUBLISHERS)
    ]
    for process in pollers + publishers:
        process.start()
    for process in publishers:
        process.join()
    published.set()
    for process in pollers:
        process.join()
    assert [process.exitcode for process in pollers + publishers] == [0] * 6

    shares = [json.loads((tmp_path / f"taken{index}").read_text()) for index in range(2)]
    taken = Counter(tuple(body) for share in shares for body in share)
    assert len(taken) == PUBLISHERS * MESSAGES_EACH
    assert set(taken.values()) == {1}
    assert all(shares), "one poller took everything, so nothing was contended"


def test_messages_come_in_the_order_of_their_publication(broker: Connection) -> None:
    publish(broker, "runs", *range(50))
    assert drain(broker, "runs") == list(range(50))


def test_a_message_published_before_a_reboot_comes_first(
    broker: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(broker, "runs", "before")
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    publish(broker, "runs", "after")
    assert drain(broker, "runs") == ["before", "after"]


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"\xff\xfe", b"[]", b"7", b'{"body": 1}'], ids=lambda raw: repr(raw)
)
def test_a_file_that_is_no_message_is_set_aside_and_the_next_one_arrives(
    broker: Connection, tmp_path: Path, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    publish(broker, "runs", "first")
    (queue_folder(tmp_path, "runs") / "00000000000000000001-x.json").write_bytes(garbage)
    assert drain(broker, "runs") == ["first"]
    (set_aside,) = (tmp_path / "broker" / "broken").iterdir()
    assert set_aside.read_bytes() == garbage
    assert "broken message" in caplog.text


def test_a_message_being_written_is_not_seen(broker: Connection, tmp_path: Path) -> None:
    publish(broker, "runs", "whole")
    (tmp_path / "broker" / "writing" / "00000000000000000001-x.json").write_text('{"bo')
    assert drain(broker, "runs") == ["whole"]


@pytest.mark.parametrize("queue", ["a.b", "a", "b.msg", "../escape", ".", "..", "über queue"])
def test_any_queue_name_keeps_its_messages_apart_and_inside_the_folder(
    broker: Connection, tmp_path: Path, queue: str
) -> None:
    publish(broker, queue, "mine")
    publish(broker, "other.b", "other")
    assert drain(broker, queue) == ["mine"]
    assert [path.name for path in tmp_path.iterdir()] == ["broker"]
    assert len(list((tmp_path / "broker" / "queues").iterdir())) == 2


def test_an_unacknowledged_message_returns_when_its_reader_closes_in_order(
    broker: Connection, tmp_path: Path
) -> None:
    publish(broker, "runs", "taken")
    with connect(tmp_path / "broker") as other:
        assert channel_of(other).basic_get("runs") is not None
        assert drain(broker, "runs") == []
    assert drain(broker, "runs") == ["taken"]


def test_purging_counts_what_it_dropped(broker: Connection) -> None:
    publish(broker, "runs", 1, 2, 3)
    assert channel_of(broker).queue_purge("runs") == 3
    assert drain(broker, "runs") == []


def test_a_consumer_waits_and_is_woken_by_another_process(broker: Connection, tmp_path: Path) -> None:
    got: list[Any] = []
    queue = Queue("runs", Exchange("runs"), routing_key="runs")

    def take(body: Any, message: Any) -> None:
        got.append(body)
        message.ack()

    with Consumer(broker, [queue], callbacks=[take]):
        with pytest.raises(socket.timeout):
            broker.drain_events(timeout=0.1)
        process = spawn.Process(target=publish_many, args=(tmp_path / "broker", 0))
        process.start()
        broker.drain_events(timeout=120)
        process.join()
    assert got == [[0, 0]]


def bind_queue(folder: Path, index: int) -> None:
    with connect(folder) as connection:
        Queue(f"fan{index}", Exchange("all", type="fanout"))(connection.default_channel).declare()


def test_processes_that_bind_at_once_all_end_up_in_the_exchange(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    processes = [spawn.Process(target=bind_queue, args=(folder, index)) for index in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with connect(folder) as connection:
        Producer(connection.default_channel, Exchange("all", type="fanout")).publish("to all")
        assert [drain(connection, f"fan{index}") for index in range(4)] == [["to all"]] * 4


def test_an_emptied_exchange_table_is_written_anew_by_the_next_process(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    (folder / "exchanges").mkdir(parents=True)
    (folder / "exchanges" / "all.exchange").touch()
    bind_queue(folder, 7)
    assert json.loads((folder / "exchanges" / "all.exchange").read_text()) == [["", "", "fan7"]]


def test_a_second_folder_in_the_same_process_gets_its_own_bindings(tmp_path: Path) -> None:
    for name in ("one", "two"):
        bind_queue(tmp_path / name, 0)
    assert (tmp_path / "two" / "exchanges" / "all.exchange").exists()


def test_an_exchange_name_cannot_leave_the_folder(broker: Connection, tmp_path: Path) -> None:
    Queue("q", Exchange("../../evil"))(broker.default_channel).declare()
    assert [path.name for path in tmp_path.iterdir()] == ["broker"]
    assert len(list((tmp_path / "broker" / "exchanges").glob("*.exchange"))) == 1


def test_a_full_disk_is_an_error_of_the_channel_and_leaves_no_draft(
    broker: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    channel_of(broker)
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(ChannelError, match="No space left"):
        channel_of(broker)._put("runs", {"body": ""})
    assert list((tmp_path / "broker" / "writing").iterdir()) == []


def test_a_folder_that_became_read_only_keeps_its_messages_and_does_not_end_the_reader(
    broker: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publish(broker, "runs", "kept")

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        assert drain(broker, "runs") == drain(broker, "runs") == []
    assert caplog.text.count("no message can be taken") == 1  # a look is taken every 80 ms
    assert drain(broker, "runs") == ["kept"]


def test_a_transport_without_its_folder_says_so() -> None:
    with pytest.raises(ValueError, match="folder"):
        Connection("filesystem://", transport="config.filesystem_broker:Transport").connect()
