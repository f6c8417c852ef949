"""Histories that earlier versions wrote are read for ever (J4, E16): hashes hold, every event folds, and the newest state
says at least what it said then (FR-40)."""

import json
import pathlib
import tempfile
import unittest

from harness import places
from harness.command_line import CommandLine

GOLDEN = pathlib.Path(places.SOURCE) / "tests" / "golden"
DAMAGED = 8


class Golden(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sandglass-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cli = CommandLine(self.folder / "none")

    def test_every_golden_history_says_what_it_said(self):
        files = sorted(GOLDEN.glob("*/*.history"))
        self.assertGreater(len(files), 8)
        for file in files:
            with self.subTest(file=str(file.relative_to(GOLDEN))):
                self.assertIs(self.cli.must("audit", "verify", "--file", file).value["good"], True)
                frames = self.cli.must("debug", "--file", file, "--all").values
                self.assertEqual(frames[-1]["seq"], frames[-1]["last"])
                said = json.loads(file.with_suffix(".facts").read_text())
                self.assertGreater(len(said), 0)
                self.assertEqual({path: frames[-1]["state"].get(path) for path in said}, said)

    def test_a_history_with_any_byte_changed_or_cut_is_refused(self):
        source = min(GOLDEN.glob("*/*.history"), key=lambda file: file.stat().st_size)
        whole = source.read_bytes()
        copy = self.folder / "copy.history"
        step = max(1, len(whole) // 40)
        for at in range(0, len(whole), step):
            changed = bytearray(whole)
            changed[at] ^= 0x20
            for bad in (bytes(changed), whole[:at]):
                copy.write_bytes(bad)
                for command in (["audit", "verify"], ["debug", "--all"]):
                    ended = self.cli.call(*command, "--file", copy, json_output=False)
                    self.assertNotEqual(ended.status, 0, f"byte {at}: {ended}")
                    self.assertIn(str(copy), ended.errors)

    def test_a_newer_format_is_said_to_be_newer(self):
        copy = self.folder / "newer.history"
        copy.write_bytes(b"sandglass history 2\n" + bytes(200))
        ended = self.cli.call("debug", "--file", copy, json_output=False)
        self.assertEqual(ended.status, DAMAGED, str(ended))
        self.assertIn("newer format", ended.errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
