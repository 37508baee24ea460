#!/usr/bin/env bash
# One Apache Kafka broker (KRaft, one node) from Maven Central's jars, for tests.
#   kafka.sh fetch                            fetch the jars once
#   kafka.sh run PORT CONTROLLER_PORT DIR     run a broker in the foreground; its files, log and pid are in DIR
# `run` ends the broker when its standard input closes, so that it never outlives the test session that started it.
# Needs Java 17 or later and Maven. Jars are kept in ${KSTREAMPY_KAFKA_DIST:-~/.cache/kstreampy-kafka};
# KAFKA_PROPERTIES holds further lines of server.properties; KAFKA_HEAP the heap's size.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dist=${KSTREAMPY_KAFKA_DIST:-$HOME/.cache/kstreampy-kafka}

fetch() {
  [ -e "$dist/complete" ] && return
  mkdir -p "$dist"
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$dist" >&2
  touch "$dist/complete"
}

properties() { # port, controller port, directory
  cat <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$2
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$2
advertised.listeners=PLAINTEXT://127.0.0.1:$1
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$3/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.ms=-1
${KAFKA_PROPERTIES:-}
CONF
}

run() { # port, controller port, directory
  fetch
  mkdir -p "$3/data"
  properties "$@" > "$3/server.properties"
  if [ ! -e "$3/data/meta.properties" ]; then
    java -cp "$dist/*" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAQ -c "$3/server.properties" \
      > "$3/server.log" 2>&1
  fi
  java "-Xmx${KAFKA_HEAP:-512m}" -XX:TieredStopAtLevel=1 -cp "$dist/*" kafka.Kafka "$3/server.properties" \
    >> "$3/server.log" 2>&1 < /dev/null &
  broker=$!
  echo "$broker" > "$3/pid"
  trap 'kill "$broker" 2> /dev/null || true' EXIT INT TERM
  exec 3<&0 # a background command would read /dev/null otherwise
  cat <&3 > /dev/null &
  wait -n "$broker" $! || true
}

case ${1:-} in
  fetch) fetch ;;
  run) shift; run "$@" ;;
  *) sed -n '2,8p' "$0"; exit 2 ;;
esac
