"""Takes the messages of topic `history` apart, as docs/formats/kafka.md and docs/formats/records.md describe them."""

import hashlib

KNOWN_HEADERS = {
    "sg.format", "sg.kind", "sg.journal", "sg.epoch", "sg.sequence", "sg.previous", "sg.stream-seq", "sg.nonce",
}


class Malformed(Exception):
    """Not a message of a journal, or one that was damaged."""


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Bytes:
    """Reads from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Malformed("cut short")
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def piece(self):
        return self.take(self.varint())

    def ended(self):
        return self.at == len(self.data)


def protobuf_fields(data):
    """[(number, value)] of a protobuf message: numbers as they stand, everything else as bytes."""
    fields, rest = [], Bytes(data)
    while not rest.ended():
        tag = rest.varint()
        kind = tag & 7
        if kind == 0:
            value = rest.varint()
        elif kind == 2:
            value = rest.piece()
        else:
            value = rest.take({1: 8, 5: 4}[kind])
        fields.append((tag >> 3, value))
    return fields


def unzigzag(value):
    return value >> 1 ^ -(value & 1)


def decode_header(data):
    """The fields of a TurnHeader (schemas/sandglass/record/v1/record.proto) that most readers want."""
    header = {"seq": 0, "previous": b"", "time_ms": 0, "epoch": 0, "request_id": "", "events": []}
    for number, value in protobuf_fields(data):
        if number == 1:
            header["stream"] = value
        elif number == 2:
            header["seq"] = value
        elif number == 3:
            header["previous"] = value
        elif number == 4:
            header["time_ms"] = unzigzag(value)
        elif number == 5:
            header["epoch"] = value
        elif number == 7:
            header["request_id"] = value.decode()
        elif number == 9:
            event = dict(protobuf_fields(value))
            header["events"].append({"type": event.get(1, 0), "version": event.get(2, 0), "body": event.get(3, b"")})
    return header


def decode_row(row):
    """A record row → {format, header (exact bytes), slots: [(encoding, bytes)]}."""
    if len(row) < 4 or crc32c(row[:-4]) != int.from_bytes(row[-4:], "big"):
        raise Malformed("the checksum does not match")
    rest = Bytes(row[:-4])
    record = {"format": rest.varint()}
    if record["format"] != 1:
        raise Malformed(f"record format {record['format']} is not known here")
    record["header"] = rest.piece()
    record["slots"] = []
    for _ in range(rest.varint()):
        slot = rest.piece()
        record["slots"].append((slot[0], slot[1:]))
    if not rest.ended():
        raise Malformed("bytes follow the end")
    return record


def number(value):
    return value.to_bytes(8, "big")


def sha256(*pieces):
    return hashlib.sha256(b"".join(pieces)).digest()


def leaf_hash(record):
    slots = [sha256(bytes([encoding]), data) for encoding, data in record["slots"]]
    return sha256(b"sandglass leaf 1", number(record["format"]), number(len(record["header"])), record["header"],
                  number(len(slots)), *slots)


def genesis(journal, partition):
    return sha256(b"sandglass genesis 1", number(len(journal.encode())), journal.encode(), number(partition))


def chain_hash(previous, partition, sequence, epoch, leaf):
    return sha256(b"sandglass chain 1", previous, number(partition), number(sequence), number(epoch), leaf)


def decode_message(partition, key, value, headers):
    """{kind, …}; for kinds record and epoch also the record, its leaf and its chain hash. `headers`: [(name, bytes)]."""
    ours = [(name, content.decode()) for name, content in headers if name.startswith("sg.")]
    texts = dict(ours)
    if len(texts) != len(ours) or not {"sg.format", "sg.kind", "sg.journal"} <= set(texts):
        raise Malformed("not a message of a journal")
    if texts["sg.format"] != "1" or not set(texts) <= KNOWN_HEADERS:
        raise Malformed("a newer format")
    message = {"kind": texts["sg.kind"], "journal": texts["sg.journal"]}
    if message["kind"] not in ("record", "epoch"):
        return message
    record = decode_row(value)
    message.update(
        epoch=int(texts["sg.epoch"]), sequence=int(texts["sg.sequence"]), previous=bytes.fromhex(texts["sg.previous"]),
        stream=key.decode(), stream_seq=int(texts["sg.stream-seq"]), record=record, leaf=leaf_hash(record),
        header=decode_header(record["header"]))
    message["chain"] = chain_hash(message["previous"], partition, message["sequence"], message["epoch"], message["leaf"])
    return message


class Partition:
    """Follows one partition: every record once, in order. Raises Malformed where the history is not whole."""

    def __init__(self, partition):
        self.partition, self.sequence, self.chain, self.journal = partition, 0, None, None
        self.seen, self.leaves = {}, {}

    def take(self, message):
        """True: a new record. False: one that is known, or a message that says nothing of the history."""
        if message["kind"] not in ("record", "epoch"):
            return False
        if self.journal is None:
            self.journal, self.chain = message["journal"], genesis(message["journal"], self.partition)
        if message["journal"] != self.journal:
            return False
        sequence = message["sequence"]
        if self.seen.get(sequence) == message["chain"]:
            return False
        if sequence != self.sequence + 1 or message["previous"] != self.chain:
            raise Malformed(f"partition {self.partition}: sequence {sequence} does not follow {self.sequence}")
        header = message["header"]
        before = self.leaves.get(message["stream"], (0, b""))
        if (header["seq"], header["previous"]) != (before[0] + 1, before[1]):
            raise Malformed(f"{message['stream']}: record {header['seq']} does not follow {before[0]}")
        self.leaves[message["stream"]] = (header["seq"], message["leaf"])
        self.sequence, self.chain = sequence, message["chain"]
        self.seen[sequence] = message["chain"]
        return True
