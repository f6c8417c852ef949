"""Backups (E17): made beside a server that works or without one, checked, put back. What is acknowledged before a
backup is asked for is in it, and it is one moment's state in every row (FR-90, FR-92); what is damaged, unfinished or
in the way is refused and named."""

import os
import pathlib
import shutil
import signal
import subprocess
import threading
import unittest

from harness import places
from harness.case import Case
from harness.command_line import CommandLine
from harness.waiting import wait_until

DENIED = 5
REFUSED = 7
FOLDER = 8
NOT_FOUND = 6
USAGE = 2
UNREACHABLE = 4


class Backup(Case):

    def setUp(self):
        super().setUp()
        self.backup = self.folder / "backup"
        self.restored = CommandLine(self.folder / "restored")

    def hello(self, count=1, pause_ms=0):
        return self.cli.must("start", "hello", "--input", f'{{"count":{count},"pause_ms":{pause_ms}}}').value["run_id"]

    def finished(self):
        run = self.hello()
        self.cli.must("watch", run)
        return run

    def create(self):
        return self.cli.must("backup", "create", self.backup).value

    def restore(self):
        return self.restored.must("backup", "restore", self.backup, "--beside-original").value

    def refuses(self, status, text, *arguments, cli=None):
        ended = (cli or self.cli).call(*arguments, json_output=False)
        self.assertEqual(ended.status, status, str(ended))
        self.assertIn(text, ended.errors)

    def held(self):
        return list((self.data / "journal").glob("checkpoint-*"))

    def test_a_backup_beside_a_working_server_is_one_moment_of_it(self):
        self.server()
        before = [self.finished() for _ in range(5)]
        open_then = self.hello(count=4, pause_ms=400)
        stop = threading.Event()

        def work():
            while not stop.is_set():
                self.hello(count=3)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for each in workers:
            each.start()
        try:
            made = [self.cli.must("backup", "create", self.folder / f"backup-{n}").value for n in range(3)]
        finally:
            stop.set()
            for each in workers:
                each.join()
        self.assertLess(made[0]["records"], made[2]["records"])
        wait_until(lambda: not self.held(), "the checkpoints to be gone")
        self.backup = self.folder / "backup-2"
        self.assertEqual(self.cli.must("backup", "verify", self.backup).value, made[2])
        self.assertEqual(self.restore()["records"], made[2]["records"])
        # Every derived row is what the records make, so that rows and records are of one moment.
        hashes = subprocess.run([places.program("state_hashes"), self.restored.data], capture_output=True, text=True)
        self.assertEqual(hashes.returncode, 0, hashes.stdout + hashes.stderr)
        self.server(self.restored.data)
        for run in before:
            self.assertEqual(self.restored.must("show", run).value["summary"]["status"], "completed")
        self.assertEqual(self.restored.must("watch", open_then).values[-1]["summary"]["status"], "completed")
        self.assertIs(self.restored.must("audit", "verify").value["good"], True)

    def test_a_stopped_server_is_backed_up_and_put_back_in_its_place(self):
        server = self.server()
        run = self.finished()
        server.stop()
        self.create()
        self.refuses(REFUSED, "is still there", "backup", "restore", self.backup, cli=self.restored)
        shutil.rmtree(self.data)
        self.cli.must("backup", "restore", self.backup)
        self.server()
        self.assertEqual(self.cli.must("show", run).value["summary"]["status"], "completed")

    def test_every_changed_missing_or_added_file_is_named(self):
        self.server()
        self.finished()
        self.create()
        data = self.backup / "data"
        for path in sorted(p for p in self.backup.rglob("*") if p.is_file()):
            if path == self.backup / "backup":
                continue
            kept = path.read_bytes()
            changed = bytearray(kept)
            changed[len(changed) // 2] ^= 1
            for bad in (bytes(changed), kept[:-1], None):
                path.unlink()
                if bad is not None:
                    path.write_bytes(bad)
                name = str(path.relative_to(data)) if path.is_relative_to(data) else path.name
                self.refuses(FOLDER, name, "backup", "verify", self.backup)
                self.refuses(FOLDER, name, "backup", "restore", self.backup, "--beside-original", cli=self.restored)
                self.assertFalse(pathlib.Path(self.restored.data).exists(), "half a folder is left")
                if bad is not None:
                    path.unlink()
                path.write_bytes(kept)
        (data / "journal" / "more").write_text("")
        self.refuses(FOLDER, "journal/more does not belong to it", "backup", "verify", self.backup)
        (data / "journal" / "more").unlink()
        kept = (self.backup / "backup").read_text()
        for text in ("", "{}", '{"sandglass_backup": 1}', "[" * 100, kept.replace('"records": ', '"records": 9'),
                     kept.replace(str(self.data), str(self.folder / "elsewhere"))):
            (self.backup / "backup").write_text(text)
            self.refuses(FOLDER, f"{self.backup}/backup is damaged", "backup", "verify", self.backup)
            (self.backup / "backup").write_text(kept)
        self.restore()
        self.server(self.restored.data)

    def begun(self):
        """A backup that is being made, stopped in the middle of a large file."""
        large = self.data / "blobs" / "large"
        with open(large, "wb") as file:
            file.truncate(512 << 20)
        process = subprocess.Popen([places.program("sandglass"), "--data", str(self.data), "backup", "create", str(self.backup)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until((self.backup / "data" / "blobs" / "large").exists, "the copy to have begun")
        process.send_signal(signal.SIGSTOP)
        self.assertTrue(self.held())
        large.unlink()
        return process

    def test_one_that_is_killed_leaves_nothing_that_passes_for_a_backup(self):
        self.server()
        self.finished()
        self.begun().kill()
        wait_until(lambda: not self.held(), "the checkpoint to be gone with its client")
        self.refuses(NOT_FOUND, "is not finished", "backup", "verify", self.backup)
        self.refuses(NOT_FOUND, "is not finished", "backup", "restore", self.backup, cli=self.restored)
        self.create()
        # A restore that was killed has no format yet: no server opens it, and it is begun anew.
        self.restore()
        target = pathlib.Path(self.restored.data)
        (target / "format").unlink()
        (target / "unfinished").write_text("")
        report = self.server(target, start=False).start()
        self.assertIn("was being restored", report)
        self.restore()
        self.refuses(REFUSED, "exists", "backup", "restore", self.backup, "--beside-original", cli=self.restored)

    def test_one_whose_engine_is_killed_says_so_and_the_next_engine_takes_the_space_back(self):
        server = self.server()
        self.finished()
        process = self.begun()
        server.kill_child("engine")
        wait_until(lambda: not self.held(), "the next engine to remove the checkpoint")
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(), UNREACHABLE)
        self.assertIn("the engine ended while the backup was being made", process.stderr.read())
        self.refuses(NOT_FOUND, "is not finished", "backup", "verify", self.backup)
        self.create()

    def test_what_is_in_the_way_is_refused(self):
        self.server()
        self.finished()
        self.backup.mkdir()
        (self.backup / "mine").write_text("x")
        self.refuses(REFUSED, "exists", "backup", "create", self.backup)
        self.assertEqual((self.backup / "mine").read_text(), "x")
        self.refuses(USAGE, "inside the data folder", "backup", "create", self.data / "here")
        ended = self.cli.call("backup", "create", self.folder / "other", as_name="auditor", json_output=False)
        self.assertEqual(ended.status, DENIED, str(ended))
        os.symlink("/etc/passwd", self.data / "blobs" / "link")
        self.refuses(REFUSED, "blobs/link", "backup", "create", self.folder / "third")
        wait_until(lambda: not self.held(), "no checkpoint to be left")



if __name__ == "__main__":
    unittest.main(verbosity=2)
