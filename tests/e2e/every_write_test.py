"""A disk that is full at any one write of a server's life: the error says where and what to do, nothing that was
acknowledged is lost, and with room again everything goes on."""

import errno
import shutil
import unittest

from harness import places
from harness.case import Case
from harness.faults import ONE_VIEW, Faults
from harness.main_job import Job
from harness.waiting import wait_until

MACHINE = 10
# What a caller may be told meanwhile: the reason itself, or that the engine is away.
BAD_DISK = {1007: MACHINE, 1008: MACHINE, 1004: 4, 1105: 4, 1404: 4}
SHORT_FORM = 6    # so many of a life's writes, and
CALLS_WRITES = 4  # so many of the first ones for which a call waits; the long form takes every one


class EveryWrite(Case):

    def setUp(self):
        super().setUp()
        self.faults = Faults(self.folder)
        self.writes_until_ready = 0
        self.faults.watch_writes(self.data)

    def fresh(self, config=None):
        """A server for a life of its own, with nothing left of those before, however they went."""
        for server in self._servers:
            self._end(server)
            server.log.unlink(missing_ok=True)
        self._servers.clear()
        shutil.rmtree(self.data, ignore_errors=True)
        self.faults.full_from(0)
        self.faults.watch_writes(self.data)
        return self.server(config=config, settings=["engine.partitions=1", *ONE_VIEW], start=False)

    def begin(self):
        return self.cli.call("start", "hello", "--request-id", "r", "--input", '{"name":"Ann","count":3,"pause_ms":5}')

    def go_on(self, server):
        """There is room again: the server answers, started anew if it had ended."""
        self.faults.full_from(0)
        if server.process.poll() is not None:
            self.assertEqual(server.process.returncode, MACHINE, server.log_text())
            self.start(server, self.faults.environment())
        wait_until(lambda: self.cli.call("list").status == 0,
                   lambda: "an engine that answers again:\n" + server.log_text(), seconds=60)

    def judge_report(self, server, report, error=errno.ENOSPC):
        """A start on such a disk: an error that names the folder and what to do, or none."""
        if report == "ready":
            return
        code, remedy = (1008, "free") if error == errno.ENOSPC else (1007, "")
        self.assertTrue(report.startswith(f"error {code} "), report + "\n" + server.log_text())
        self.assertIn(str(self.data), report)
        self.assertIn(remedy, report)
        self.assertEqual(server.wait(), MACHINE)

    def writes_to_try(self, life):
        """The numbers of the writes to fail, from one life without a fault."""
        life()
        writes = self.faults.writes
        self.assertGreater(writes, 20, "the library sees no writes")
        if places.LONG:
            return range(1, writes + 1)
        calls = range(self.writes_until_ready + 1, self.writes_until_ready + 1 + CALLS_WRITES)
        return sorted({*range(1, writes + 1, max(1, writes // SHORT_FORM)), *calls})

    def one_life(self):
        server = self.fresh()
        self.start(server, self.faults.environment())
        self.writes_until_ready = self.faults.writes
        self.assertEqual(self.begin().status, 0)
        self.cli.must("watch", self.begin().value["run_id"])
        self.assertEqual(server.stop(), 0)

    def live_on_a_bad_disk(self, write, error):
        """One life whose writes fail from this one on, until there is room again."""
        server = self.fresh()
        self.faults.full_from(write, error)
        self.judge_report(server, server.start(self.faults.environment()), error)
        taken = None
        if server.process.poll() is None:
            ended = self.begin()
            if ended.status == 0:
                taken = ended.value["run_id"]
            else:
                self.assertEqual(BAD_DISK.get(int(ended.value["error"])), ended.status, str(ended))
        self.go_on(server)
        run = self.begin()
        self.assertEqual(run.status, 0, str(run))
        if taken:
            self.assertEqual(run.value["run_id"], taken, "an acknowledged start was forgotten")
        ended = self.cli.must("watch", run.value["run_id"])
        self.assertEqual(ended.values[-1]["summary"]["status"], "completed", str(ended))
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)
        self.assertEqual(server.stop(), 0)
        self.assertNotIn('how="signal 6"', server.log_text(), "a program ended by an assertion")

    def test_a_full_disk_at_any_write_loses_nothing_that_was_acknowledged(self):
        for write in self.writes_to_try(self.one_life):
            with self.subTest(write=write):
                self.live_on_a_bad_disk(write, errno.ENOSPC)

    # As when a file system is mounted read-only under a running engine, or its disk is failing.
    def test_a_disk_that_turns_read_only_or_fails_is_told_and_survived(self):
        writes = self.writes_to_try(self.one_life)
        for error in (errno.EROFS, errno.EIO):
            for write in writes if places.LONG else writes[1::4]:
                with self.subTest(write=write, error=errno.errorcode[error]):
                    self.live_on_a_bad_disk(write, error)

    def met_a_fault_or_an_approval(self):
        asked = self.cli.call("approvals")
        return self.faults.refused or asked.status != 0 or asked.value["approvals"]

    @unittest.skipUnless(places.LONG, "the long form")
    def test_the_main_job_survives_a_full_disk_at_any_write(self):
        outside = self.receiver()

        def life():
            server = self.fresh(outside.configuration())
            self.start(server, self.faults.environment())
            self.assertEqual(Job.start(self.cli, outside).approve_and_wait()["summary"]["status"], "completed")
            self.assertEqual(server.stop(), 0)

        for write in self.writes_to_try(life)[::5]:
            with self.subTest(write=write):
                before = outside.effects()
                server = self.fresh(outside.configuration())
                self.faults.full_from(write)
                self.judge_report(server, server.start(self.faults.environment()))
                request_id = f"job-{write}"
                if server.process.poll() is None:
                    meanwhile = self.cli.call("run", places.EXAMPLE / "task.yaml", "--detach", "--request-id", request_id,
                                              "--param", f"receiver={outside.url}", "--param", f"template={places.TEMPLATE}")
                    if meanwhile.status == 0:  # some way into the job
                        wait_until(self.met_a_fault_or_an_approval, "a fault, or an approval")
                self.go_on(server)
                job = Job.start(self.cli, outside, request_id=request_id)
                detail = job.approve_and_wait()
                self.assertEqual(detail["summary"]["status"], "completed", job.describe())
                self.assertEqual(outside.effects(), before + 1)
                self.assertIs(self.cli.must("audit", "verify").value["good"], True)
                self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
