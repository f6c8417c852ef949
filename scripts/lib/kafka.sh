# Sourced by scripts/kafka, after common.sh: the pieces of which a cluster of brokers on this machine is made.
#
# A cluster is a folder: `bootstrap` (host:port,…) and for each broker a folder 1, 2, 3 with `server.properties`, `command`
# (the words that start it, one a line), `data`, `log`, and `pid` while it runs. tests/support/kafka starts brokers from
# the same files.

KAFKA_VERSION=${SANDGLASS_KAFKA_VERSION:-4.1.0}
KAFKA_JARS=$SANDGLASS_SOURCE/build/deps/kafka-$KAFKA_VERSION
KAFKA_READY='Kafka Server started'

need_java() {
  command -v java >/dev/null || die "there is no java: run scripts/setup --kafka, or apt-get install openjdk-17-jre-headless"
  local version
  version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 17 ] || die "a broker needs Java 17 or newer; java here is ${version:-of an unknown version}: apt-get install openjdk-17-jre-headless"
}

# kafka_fetch: the jars of a broker, from where Maven's own configuration says; kept for the next time.
kafka_fetch() {
  [ ! -d "$KAFKA_JARS" ] || return 0
  command -v mvn >/dev/null || die "there is no mvn to fetch the brokers' jars with: run scripts/setup --kafka, or apt-get install maven"
  need_java
  mkdir -p "$SANDGLASS_SOURCE/build/deps"
  exec {lock}>"$SANDGLASS_SOURCE/build/deps/kafka.lock"
  flock "$lock"
  if [ ! -d "$KAFKA_JARS" ]; then
    rm -rf "$KAFKA_JARS.new"
    logged kafka-fetch mvn -B -f scripts/lib/kafka-pom.xml -Dkafka.version="$KAFKA_VERSION" \
      dependency:copy-dependencies -DoutputDirectory="$KAFKA_JARS.new" ||
      die "Maven could not fetch Kafka $KAFKA_VERSION; what it is configured to use is in ~/.m2/settings.xml or /etc/maven/settings.xml"
    mv "$KAFKA_JARS.new" "$KAFKA_JARS"
  fi
  exec {lock}>&-
}

# pick COUNT: a new cluster id, then COUNT ports that nobody listens on. They lie below the range from which the kernel
# gives ports to outgoing connections, so that a broker that is down for a while finds its port again.
pick() {
  python3 - "$1" <<'PYTHON'
import base64, random, socket, sys, uuid
first = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
low, high = (10000, first) if first > 12000 else (1024, 65536)
held, wanted = [], int(sys.argv[1])
for port in random.sample(range(low, high), min(high - low, wanted * 50)):
    if len(held) == wanted:
        break
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", port))
        held.append(one)
    except OSError:
        one.close()
if len(held) < wanted:
    sys.exit("no free ports")
identity = "-"
while identity.startswith("-"):  # would be taken for an option
    identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
print(identity, *(one.getsockname()[1] for one in held))
PYTHON
}

# kafka_prepare FOLDER COUNT [EXTRA]: settings, commands and formatted folders. EXTRA is a file of more settings, which win;
# in it {folder}, {number}, {client}, {controller}, {tls} and {sasl} (two more ports, for listeners of its own) stand for the
# broker's own.
kafka_prepare() {
  local folder=$1 count=$2 extra=${3:-} picked number at voters= bootstrap= home formatting=()
  need_java
  kafka_fetch
  rm -rf "$folder"
  mkdir -p "$folder"
  folder=$(cd "$folder" && pwd)
  read -ra picked < <(pick $((count * 4))) || true
  [ ${#picked[@]} = $((count * 4 + 1)) ] || die "no free ports on the loopback interface"
  for ((number = 1; number <= count; number++)); do
    at=$((number * 4 - 3))
    bootstrap+=${bootstrap:+,}127.0.0.1:${picked[at]}
    voters+=${voters:+,}$number@127.0.0.1:${picked[at + 1]}
  done
  local replicas=$((count < 3 ? 1 : 3)) in_sync=$((count < 3 ? 1 : 2))
  for ((number = 1; number <= count; number++)); do
    at=$((number * 4 - 3)) home=$folder/$number
    mkdir -p "$home"
    cat >"$home/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=$number
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:${picked[at]},CONTROLLER://127.0.0.1:${picked[at + 1]}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$home/data
auto.create.topics.enable=false
default.replication.factor=$replicas
min.insync.replicas=$in_sync
offsets.topic.replication.factor=$replicas
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$in_sync
transaction.state.log.num.partitions=8
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
PROPERTIES
    # A single broker has no other that holds what the page cache loses: it flushes before it acknowledges.
    [ "$count" -ge 3 ] || echo log.flush.interval.messages=1 >>"$home/server.properties"
    [ -z "$extra" ] || sed -e "s|{folder}|$home|g; s|{number}|$number|g; s|{client}|${picked[at]}|g" \
      -e "s|{controller}|${picked[at + 1]}|g; s|{tls}|${picked[at + 2]}|g; s|{sasl}|${picked[at + 3]}|g" \
      "$extra" >>"$home/server.properties"
    echo "${picked[at + 2]}" >"$home/tls-port"
    echo "${picked[at + 3]}" >"$home/sasl-port"
    local java=(java -cp "$KAFKA_JARS/*" "-Dlog4j2.configurationFile=$SANDGLASS_SOURCE/scripts/lib/kafka-log4j2.properties")
    printf '%s\n' "${java[@]}" -Xms128m -Xmx384m -XX:+UseSerialGC kafka.Kafka "$home/server.properties" >"$home/command"
    "${java[@]}" -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 kafka.tools.StorageTool format \
      --cluster-id "${picked[0]}" --config "$home/server.properties" >"$home/log" 2>&1 </dev/null &
    formatting+=($!)
  done
  for ((number = 1; number <= count; number++)); do
    wait "${formatting[number - 1]}" || {
      tail -n 20 "$folder/$number/log" >&2
      die "broker $number could not be formatted; its settings are in $folder/$number/server.properties"
    }
  done
  echo "$count" >"$folder/count"
  echo "$bootstrap" >"$folder/bootstrap" # last: a folder that has it is complete
}

# broker_pid HOME: the process id of the broker of that folder, if it runs; a number that meanwhile is another's does not count.
broker_pid() {
  local pid
  pid=$(cat "$1/pid" 2>/dev/null) || return 1
  grep -zqxF -- "$1/server.properties" "/proc/$pid/cmdline" 2>/dev/null || return 1
  echo "$pid"
}

kafka_launch() {
  local home=$1 words
  mapfile -t words <"$home/command"
  : >"$home/log"
  setsid "${words[@]}" >"$home/log" 2>&1 </dev/null &
  echo $! >"$home/pid"
  # For a moment it is a copy of this script, and nobody would know it for a broker.
  while cmp -s "/proc/$!/cmdline" "/proc/$$/cmdline"; do sleep 0.01; done
  disown
}

# kafka_wait_ready HOME: until the broker says that it has started; 120 s.
kafka_wait_ready() {
  local deadline=$((SECONDS + 120))
  until grep -qF "$KAFKA_READY" "$1/log"; do
    broker_pid "$1" >/dev/null || {
      tail -n 20 "$1/log" >&2
      die "a broker ended while it started; its log is $1/log"
    }
    [ "$SECONDS" -lt "$deadline" ] || die "a broker does not get ready; its log is $1/log"
    sleep 0.1
  done
}

kafka_stop() {
  local folder=$1 home pid
  for home in "$folder"/[0-9]*; do
    pid=$(broker_pid "$home") || continue
    kill -CONT "$pid" 2>/dev/null || true
    kill -TERM "$pid" 2>/dev/null || true
  done
  local deadline=$((SECONDS + 20))
  for home in "$folder"/[0-9]*; do
    # One that has ended, and that nobody has waited for, has no command line any more.
    while pid=$(broker_pid "$home"); do
      # Brokers that stop together may wait for a majority that is gone.
      [ "$SECONDS" -lt "$deadline" ] || kill -KILL "$pid" 2>/dev/null || true
      sleep 0.1
    done
  done
  rm -rf --one-file-system "$folder"
}
