"""A consumer group: who its members are, which partitions each one should have and does have, and its
offsets.

In here: range assignment, ownership and membership, as plain state. Not in here: polling and calling
listeners (`consumer.py`), and locks (the cluster's lock is held by every caller).

The protocol is the incremental one: a change of membership moves every member's `target`; a member lets go of
what is no longer its own in its next poll, and takes what is new in its first poll after the others have let
go of all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from kstreampy.broker.broker import GroupConsumer, Position, TopicPartition
from kstreampy.errors import BrokerRefused, TaskMigrated

MAX_METADATA_BYTES = 4096


class Standing(Enum):
    """Where a member stands with its group.

    ```
    CURRENT --close--> LEFT                       (dynamic member)
    CURRENT --close--> AWAY                       (static member: its partitions wait for it)
    CURRENT, AWAY --session timeout--> EXPELLED
    CURRENT, AWAY --successor with the same instance id--> FENCED
    ```
    """

    CURRENT = "current"
    AWAY = "away"
    LEFT = "left"
    EXPELLED = "expelled"
    FENCED = "fenced"


class Member:
    """One membership, from joining to leaving. `target` is what the group wants the member to have; members
    are ranked by `(dynamic, instance id, when joined)`, so that a static one keeps its place over
    restarts."""

    def __init__(
        self,
        group: Group,
        consumer: GroupConsumer,
        topics: Iterable[str],
        instance_id: str | None,
        number: int,
    ) -> None:
        self.group = group
        self.consumer = consumer
        self.name = f"{instance_id or 'member'}-{number}"
        self.rank = (instance_id is None, instance_id or "", number)
        self.topics = frozenset(topics)
        self.instance_id = instance_id
        self.standing = Standing.CURRENT
        self.target: set[TopicPartition] = set()


class Group:
    """One consumer group. `partitions` gives a topic's number of partitions, 0 when there is no such
    topic."""

    def __init__(self, name: str, partitions: Callable[[str], int]) -> None:
        self.name = name
        self.offsets: dict[TopicPartition, Position] = {}
        self.members: list[Member] = []
        self._partitions = partitions
        self._owners: dict[TopicPartition, Member] = {}
        self._joined = 0
        self._turned = 0

    def join(self, consumer: GroupConsumer, topics: Iterable[str], instance_id: str | None) -> Member:
        """A new member. One with the same instance id is fenced, and what it had is free for the new one at
        once."""
        self._joined += 1
        member = Member(self, consumer, topics, instance_id, self._joined)
        for old in [m for m in self.members if instance_id is not None and m.instance_id == instance_id]:
            self._drop(old, Standing.FENCED)
        self.members.append(member)
        self.balance()
        return member

    def leave(self, member: Member) -> None:
        """The member goes: at once, or when it is static only out of sight, with its partitions kept for
        it."""
        if member.standing is not Standing.CURRENT:
            return
        if member.instance_id is not None:
            member.standing = Standing.AWAY
        else:
            self._drop(member, Standing.LEFT)
            self.balance()

    def expel(self, member: Member) -> None:
        """What happens when a member's session times out."""
        if member.standing in (Standing.CURRENT, Standing.AWAY):
            self._drop(member, Standing.EXPELLED)
            self.balance()

    def _drop(self, member: Member, standing: Standing) -> None:
        member.standing = standing
        self.members.remove(member)
        self._owners = {partition: owner for partition, owner in self._owners.items() if owner is not member}

    def balance(self) -> None:
        """Range assignment, topic by topic over the sorted members: with equal numbers of partitions and
        equal subscriptions, partition i of every topic goes to the same member."""
        members = sorted(self.members, key=lambda member: member.rank)
        if members:
            first = self._turned % len(members)
            members = members[first:] + members[:first]
        for member in members:
            member.target = set()
        for topic in sorted({topic for member in members for topic in member.topics}):
            readers = [member for member in members if topic in member.topics]
            share, extra = divmod(self._partitions(topic), len(readers))
            start = 0
            for place, member in enumerate(readers):
                stop = start + share + (place < extra)
                member.target.update(TopicPartition(topic, partition) for partition in range(start, stop))
                start = stop

    def revoke_all(self) -> None:
        """No member shall have anything, until the next `balance`."""
        for member in self.members:
            member.target = set()

    def turn(self) -> None:
        """What each member had is the next member's from now on."""
        self._turned += 1
        self.balance()

    def take(self, member: Member) -> list[TopicPartition]:
        """Makes the member owner of its whole target and returns what is new to it, sorted; nothing as long
        as another member still holds any part of that."""
        new = sorted(partition for partition in member.target if self._owners.get(partition) is not member)
        if member.standing is not Standing.CURRENT or any(partition in self._owners for partition in new):
            return []
        self._owners.update(dict.fromkeys(new, member))
        return new

    def owned(self, member: Member) -> list[TopicPartition]:
        """What the member has now, which may differ from its target."""
        return [partition for partition, owner in self._owners.items() if owner is member]

    def let_go(self, member: Member, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if self._owners.get(partition) is member:
                del self._owners[partition]

    def check(self, member: Member, positions: Mapping[TopicPartition, Position]) -> None:
        """Refuses offsets from a member that is not current or does not own the partitions. The second is
        stricter than Kafka, which looks at the member only: offsets of lost partitions are a fault that tests
        should show."""
        if member.standing is not Standing.CURRENT:
            raise TaskMigrated(
                f"member {member.name} of group {self.name} is {member.standing.value}: its offsets are not "
                "accepted; drop what is not committed and poll again to rejoin"
            )
        foreign = sorted(partition for partition in positions if self._owners.get(partition) is not member)
        if foreign:
            raise TaskMigrated(
                f"member {member.name} of group {self.name} does not own {_names(foreign)}: its offsets are "
                "not accepted; drop what is not committed of them"
            )
        for partition, position in positions.items():
            if len(position.metadata.encode()) > MAX_METADATA_BYTES:
                raise BrokerRefused(
                    f"offset metadata of {_names([partition])} in group {self.name} is longer than "
                    f"{MAX_METADATA_BYTES} bytes; store less beside the offset"
                )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}[{partition}]" for topic, partition in partitions)
