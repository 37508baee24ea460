"""Laws about consumer groups: who gets what, where it begins, and how it is handed over."""

from __future__ import annotations

from collections import Counter

import pytest

from kstreampy.broker.broker import Position, Start, TopicPartition
from kstreampy.errors import JobError
from tests.laws.scene import MISSING_S, Member, Scene, names_gap, poll_until


def _partitions(*topics: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in topics for number in range(count)]


def _split(members: list[Member], partitions: list[TopicPartition]) -> bool:
    """Whether the members own all partitions between them, each one once, and none is left without."""
    owned = [member.consumer.assignment() for member in members]
    sizes = [len(mine) for mine in owned]
    return Counter(p for mine in owned for p in mine) == Counter(partitions) and min(sizes) > 0


class GroupLaws:
    """Mixed into `BrokerLaws`."""

    def test_member_alone_gets_everything_once(self, scene: Scene) -> None:
        partitions = _partitions(scene.topic(partitions=3), count=3)
        for topic, number in partitions:
            scene.send(topic, b"%d" % number, partition=number)
        member = scene.member(scene.name("group"), [partitions[0].topic])
        member.poll_for(3)
        assert member.consumer.assignment() == set(partitions)
        assert sorted(message.value() or b"" for message in member.messages) == [b"0", b"1", b"2"]
        assert sorted(p for _, event, named in member.journal for p in named if event == "assigned") == partitions

    def test_members_are_known_with_what_they_have(self, scene: Scene) -> None:
        partitions = _partitions(scene.topic(partitions=4), count=4)
        group = scene.name("group")
        assert scene.broker.members(group) == []
        first = scene.member(group, [partitions[0].topic], instance_id="one")
        first.poll_until_assigned(set(partitions))
        second = scene.member(group, [partitions[0].topic], instance_id="two")
        poll_until(lambda: _split([first, second], partitions), first.poll, second.poll, waits_for="a fair share")
        wanted = {"one": first.consumer.assignment(), "two": second.consumer.assignment()}
        poll_until(
            lambda: {member.instance_id: set(member.partitions) for member in scene.broker.members(group)} == wanted,
            first.poll,
            second.poll,
            waits_for="the group to tell who has what",
        )

    def test_starts_are_honoured(self, scene: Scene) -> None:
        first, second, third = _partitions(scene.topic(partitions=3), count=3)
        for partition in (first, second, third):
            scene.send(partition.topic, b"0", b"1", b"2", partition=partition.partition)
        starts = {first: Start(0), second: Start(2), third: Start(3)}
        member = scene.member(scene.name("group"), [first.topic], starts=starts)
        member.poll_for(4)
        scene.send(third.topic, b"late", partition=2)
        member.poll_for(5)
        assert [member.got(p) for p in (first, second, third)] == [[b"0", b"1", b"2"], [b"2"], [b"late"]]

    def test_paused_start_gives_nothing_until_it_is_resumed(self, scene: Scene) -> None:
        first, second = _partitions(scene.topic(partitions=2), count=2)
        for partition in (first, second):
            scene.send(partition.topic, b"0", b"1", b"2", b"3", partition=partition.partition)
        starts = {first: Start(0, paused=True), second: Start(0)}
        member = scene.member(scene.name("group"), [first.topic], starts=starts)
        member.poll_for(4)
        for _ in range(3):
            member.poll()
        assert (member.got(first), member.got(second)) == ([], [b"0", b"1", b"2", b"3"])
        member.consumer.seek(first, 2)
        member.consumer.resume([first])
        member.poll_for(6)
        scene.send(first.topic, b"4")
        member.poll_for(7)
        assert member.got(first) == [b"2", b"3", b"4"]

    def test_pause_holds_messages_back_and_resume_loses_none(self, scene: Scene) -> None:
        first, second = _partitions(scene.topic(partitions=2), count=2)
        member = scene.member(scene.name("group"), [first.topic])
        scene.send(first.topic, b"0")
        scene.send(second.topic, b"0", partition=1)
        member.poll_for(2)
        member.consumer.pause([first])
        scene.send(first.topic, b"1", b"2")
        scene.send(second.topic, b"1", b"2", partition=1)
        member.poll_for(4)
        for _ in range(3):
            member.poll()
        assert (member.got(first), member.got(second)) == ([b"0"], [b"0", b"1", b"2"])
        assert member.consumer.positions([first, second]) == {first: 1, second: 3}
        member.consumer.resume([first])
        member.poll_for(6)
        assert member.got(first) == [b"0", b"1", b"2"]

    def test_a_partition_that_comes_back_is_paused_only_if_its_start_says_so(self, scene: Scene) -> None:
        partitions = set(_partitions(scene.topic(partitions=2), count=2))
        topic, group = min(partitions).topic, scene.name("group")
        first = scene.member(group, [topic])
        first.poll_until_assigned(partitions)
        first.consumer.pause(partitions)
        second = scene.member(group, [topic])
        poll_until(
            lambda: len(second.consumer.assignment()) == 1, first.poll, second.poll, waits_for="a partition each"
        )
        (moved,) = second.consumer.assignment()
        second.consumer.close()
        first.poll_until_assigned(partitions)
        scene.send(topic, b"0", partition=moved.partition)
        first.poll_for(1)
        assert first.got(moved) == [b"0"]

    def test_seek_back_reads_again_and_drops_what_was_buffered(self, scene: Scene) -> None:
        (partition,) = _partitions(scene.topic(), count=1)
        scene.send(partition.topic, *(b"%d" % number for number in range(10)))
        member = scene.member(scene.name("group"), [partition.topic])
        poll_until(lambda: len(member.messages) > 0, lambda: member.poll(3), waits_for="a first message")
        already = len(member.messages)
        member.consumer.seek(partition, 1)
        member.poll_for(already + 9)
        expected = list(range(already)) + list(range(1, 10))
        assert member.got(partition) == [b"%d" % number for number in expected]

    def test_lag_counts_what_is_left(self, scene: Scene) -> None:
        (partition,) = _partitions(scene.topic(), count=1)
        scene.send(partition.topic, *(b"%d" % number for number in range(10)))
        member = scene.member(scene.name("group"), [partition.topic])
        poll_until(lambda: len(member.messages) > 0, lambda: member.poll(4), waits_for="a first message")
        assert member.consumer.lag([partition]) == {partition: 10 - len(member.messages)}
        member.poll_for(10)
        poll_until(lambda: member.consumer.lag([partition]) == {partition: 0}, member.poll, waits_for="lag 0")

    def test_committed_offsets_and_notes_come_back(self, scene: Scene) -> None:
        first, second = _partitions(scene.topic(partitions=2), count=2)
        group = scene.name("group")
        member = scene.member(group, [first.topic])
        member.poll_until_assigned({first, second})
        note = "watermark=12;ä" + "x" * 200
        member.consumer.commit({first: Position(3, note)})
        assert scene.broker.committed(group, [first, second]) == {first: Position(3, note)}
        member.consumer.commit({first: Position(2), second: Position(0, "n")})
        assert scene.broker.committed(group, [first, second]) == {
            first: Position(2),
            second: Position(0, "n"),
        }

    def test_start_below_the_begin_is_an_error_that_names_the_gap(self, scene: Scene) -> None:
        (partition,) = _partitions(scene.topic(), count=1)
        scene.send(partition.topic, *(b"%d" % number for number in range(30)))
        scene.broker.delete_records({partition: 27})
        member = scene.member(scene.name("group"), [partition.topic], starts={partition: Start(13)})
        with pytest.raises(JobError) as caught:
            member.poll_for(1)
        assert names_gap(caught.value, partition.topic, 13, 27)

    def test_missing_topic_is_an_error_that_names_it(self, scene: Scene) -> None:
        missing = scene.name("missing")
        member = scene.member(scene.name("group"), [missing])
        with pytest.raises(JobError, match=missing):
            poll_until(lambda: False, member.poll, waits_for="the error", wait_s=MISSING_S)

    def test_two_members_share_and_co_located_topics_stay_together(self, scene: Scene) -> None:
        topics = [scene.topic(partitions=4), scene.topic(partitions=4)]
        partitions = _partitions(*topics, count=4)
        group = scene.name("group")
        members = [scene.member(group, topics, name=name) for name in ("a", "b")]
        poll_until(
            lambda: _split(members, partitions),
            *(member.poll for member in members),
            waits_for="both to have a share",
        )
        for member in members:
            numbers = {
                topic: sorted(p.partition for p in member.consumer.assignment() if p.topic == topic) for topic in topics
            }
            assert numbers[topics[0]] == numbers[topics[1]]
            assert len(numbers[topics[0]]) == 2

    def test_more_members_than_partitions(self, scene: Scene) -> None:
        (partition,) = _partitions(scene.topic(), count=1)
        group = scene.name("group")
        members = [scene.member(group, [partition.topic], name=name) for name in ("a", "b")]
        poll_until(
            lambda: sum(len(member.consumer.assignment()) for member in members) == 1,
            *(member.poll for member in members),
            waits_for="one to own the partition",
        )
        scene.send(partition.topic, b"v")
        poll_until(
            lambda: sum(len(member.messages) for member in members) == 1,
            *(member.poll for member in members),
            waits_for="the message",
        )

    def test_joining_and_leaving_hand_over_without_loss_or_repeat(self, scene: Scene) -> None:
        topic = scene.topic(partitions=4)
        partitions = _partitions(topic, count=4)
        group = scene.name("group")
        journal: list[tuple[str, str, list[TopicPartition]]] = []
        sent = 0

        def send() -> None:
            nonlocal sent
            for partition in partitions:
                scene.send(topic, b"%d" % sent, partition=partition.partition)
            sent += 1

        send()
        first = scene.member(group, [topic], name="first", journal=journal, commit_on_revoke=True)
        first.poll_until_assigned(set(partitions))
        first.poll_for(4)
        second = scene.member(group, [topic], name="second", journal=journal, commit_on_revoke=True)
        send()
        poll_until(lambda: _split([first, second], partitions), first.poll, second.poll, waits_for="the handing over")
        send()
        first.consumer.close()
        second.poll_until_assigned(set(partitions))
        send()
        poll_until(
            lambda: len(first.messages) + len(second.messages) >= 4 * sent,
            second.poll,
            waits_for="all messages",
        )
        handled = [(m.partition(), m.value()) for m in first.messages + second.messages]
        assert Counter(handled) == Counter((p.partition, b"%d" % n) for p in partitions for n in range(sent))
        _check_handing_over(journal)

    def test_static_member_comes_back_to_its_own_without_disturbing_others(self, scene: Scene) -> None:
        topic = scene.topic(partitions=4)
        partitions = _partitions(topic, count=4)
        group = scene.name("group")
        first = scene.member(group, [topic], name="first", instance_id=f"{group}-0", commit_on_revoke=True)
        second = scene.member(group, [topic], name="second", instance_id=f"{group}-1")
        poll_until(
            lambda: _split([first, second], partitions),
            first.poll,
            second.poll,
            waits_for="both to have a share",
        )
        had = first.consumer.assignment()
        undisturbed = list(second.journal)
        first.consumer.close()
        for partition in partitions:
            scene.send(topic, b"v", partition=partition.partition)
        back = scene.member(group, [topic], name="back", instance_id=f"{group}-0")
        poll_until(
            lambda: back.consumer.assignment() == had and len(back.messages) == 2 and len(second.messages) == 2,
            back.poll,
            second.poll,
            waits_for="the member to come back to its own",
        )
        assert second.journal == undisturbed

    def test_close_revokes_once(self, scene: Scene) -> None:
        (partition,) = _partitions(scene.topic(), count=1)
        scene.send(partition.topic, b"v")
        member = scene.member(scene.name("group"), [partition.topic], commit_on_revoke=True)
        member.poll_for(1)
        member.consumer.close()
        member.consumer.close()
        assert member.journal == [("member", "assigned", [partition]), ("member", "revoked", [partition])]
        assert scene.broker.committed(member.group, [partition]) == {partition: Position(1)}

    def test_error_in_a_listener_is_raised_by_poll(self, scene: Scene) -> None:
        (partition,) = _partitions(scene.topic(), count=1)

        class Refusing(Member):
            def assigned(self, partitions: object) -> dict[TopicPartition, Start]:
                raise ValueError("no room for this task")

        member = Refusing(scene.broker, scene.name("group"), [partition.topic])
        with pytest.raises(ValueError, match="no room for this task"):
            poll_until(lambda: False, member.poll, waits_for="the error")
        member.consumer.close()


def _check_handing_over(journal: list[tuple[str, str, list[TopicPartition]]]) -> None:
    """Nobody is assigned a partition that another member has not yet let go of."""
    owners: dict[TopicPartition, str] = {}
    for name, event, partitions in journal:
        for partition in partitions:
            if event == "assigned":
                assert owners.setdefault(partition, name) == name, f"{partition} went to {name} too early"
                assert owners[partition] == name
            else:
                assert owners.pop(partition) == name
