#!/usr/bin/env python3
"""Which test shows which attack (ADV-A1) and field report (FR-96): the table at the end of docs/TESTING.md.

Tests cite what they show in their comments; the table is made from that. Without an argument it is checked: every
id of the table stands in the file that the table names, and every id that a test cites is in the table. --write makes
it anew.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/TESTING.md"
BEGIN, END = "<!-- made by tests/tidy/coverage.py --write -->\n", "<!-- end -->\n"
# "ADV-C7, C9" cites two attacks.
CITED = re.compile(r"ADV-([A-H]\d+(?:, [A-H]\d+)*)|FR-(\d+)")


def ids_in(text):
    for attacks, report in CITED.findall(text):
        if report:
            yield f"FR-{report}"
        else:
            yield from (f"ADV-{each}" for each in attacks.split(", "))


def order(identifier):
    kind, rest = identifier.split("-")
    return (kind, rest[0] if kind == "ADV" else "", int(rest.lstrip("ABCDEFGH")))


def cited():
    """Id → files that cite it."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix not in (".cc", ".h", ".py") or path.parent == ROOT / "tests/tidy":
            continue
        for identifier in set(ids_in(path.read_text())):
            found.setdefault(identifier, []).append(path.relative_to(ROOT / "tests").as_posix())
    return found


def table():
    found = cited()
    lines = ["| shown | in `tests/` |\n", "| --- | --- |\n"]
    for identifier in sorted(found, key=order):
        lines.append(f"| {identifier} | {' · '.join(found[identifier])} |\n")
    return "".join(lines)


def main():
    text = PAGE.read_text()
    before, begin, rest = text.partition(BEGIN)
    made, end, after = rest.partition(END)
    if not begin or not end:
        print(f"{PAGE.name}: the marks of the table are missing")
        return 1
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(before + BEGIN + table() + END + after)
        return 0
    known, wanted = set(made.splitlines()), set(table().splitlines())
    for line in sorted(known - wanted):
        print(f"docs/TESTING.md: no longer so: {line}")
    for line in sorted(wanted - known):
        print(f"docs/TESTING.md: missing: {line}")
    if known != wanted:
        print("make the table anew: tests/tidy/coverage.py --write")
    return 0 if known == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
