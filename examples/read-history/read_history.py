#!/usr/bin/env python3
"""Prints the history of a Sandglass journal from its Kafka topic, a line of JSON a record."""

import argparse
import json
import sys

import confluent_kafka

from history_record import Malformed, Partition, decode_message

ENCODINGS = {1: "json", 2: "bytes", 3: "cereal"}


def line_of(partition, message):
    header = message["header"]
    return {
        "partition": partition,
        "sequence": message["sequence"],
        "stream": message["stream"],
        "seq": header["seq"],
        "time_ms": header["time_ms"],
        "epoch": message["epoch"],
        "request_id": header["request_id"],
        "events": [event["type"] for event in header["events"]],
        "payloads": [
            {"encoding": ENCODINGS.get(encoding, str(encoding)), "text": data.decode() if encoding == 1 else data.hex()}
            for encoding, data in message["record"]["slots"]
        ],
        "leaf": message["leaf"].hex(),
        "chain": message["chain"].hex(),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--brokers", required=True, help="host:port,…")
    options.add_argument("--topic", default="history")
    options.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the client")
    options.add_argument("--follow", action="store_true", help="go on at the end")
    chosen = options.parse_args()
    settings = {
        "bootstrap.servers": chosen.brokers,
        "group.id": "read-history",  # must be there; nothing is committed
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
    }
    settings.update(each.split("=", 1) for each in chosen.set)
    consumer = confluent_kafka.Consumer(settings)
    topic = consumer.list_topics(chosen.topic, timeout=30).topics[chosen.topic]
    if topic.error is not None:
        sys.exit(f"{chosen.topic}: {topic.error}")
    partitions = {number: Partition(number) for number in topic.partitions}
    beginning = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(chosen.topic, number, beginning) for number in partitions])
    open_ones = set(partitions)
    while open_ones or chosen.follow:
        received = consumer.poll(30)
        if received is None:
            if chosen.follow:
                continue
            sys.exit("the brokers do not answer")
        if received.error():
            if received.error().code() != confluent_kafka.KafkaError._PARTITION_EOF:
                sys.exit(str(received.error()))
            open_ones.discard(received.partition())
            continue
        number = received.partition()
        try:
            message = decode_message(number, received.key(), received.value() or b"", received.headers() or [])
            new = partitions[number].take(message)
        except Malformed as problem:
            sys.exit(f"partition {number}, offset {received.offset()}: {problem}")
        if new:
            print(json.dumps(line_of(number, message)), flush=chosen.follow)
    consumer.close()


if __name__ == "__main__":
    main()
