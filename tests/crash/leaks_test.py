"""What is left on the machine after each kind of death, and after many sandboxes (V1): nothing, in bounded time.

Compared are processes, namespaces, mounts in all of them, control groups, loop devices, sockets, images and records; only
those of this server (harness/resources.py), since others run beside it.
"""

import signal
import time
import unittest

from harness import places, processes, remains, resources
from harness.case import Case
from harness.main_job import AWAY, Job
from harness.waiting import wait_until

GRACE_SECONDS = 3
SETTLING_SECONDS = 5
CYCLES = 2000 if places.LONG else 40
VICTIMS = (("engine",), ("host",), ("keeper",), ("engine", "host", "keeper"))
if places.LONG:
    VICTIMS += (("effect",), ("egress",), ("engine", "host"), ("host", "keeper"))
WARM_UP = 16
AT_ONCE = 8
# Threads that libraries begin when they first need them, and the most that there may be: RocksDB with the first table and
# the first merge of tables, gRPC when two timers come at once. They stay; 2,000 sandboxes begin one or two.
BEGUN_LATE = {"thread rocksdb:high": 1, "thread rocksdb:low": 1, "thread grpc_global_tim": 4}
# What a program may keep at all, caches that fill up, and for each further sandbox. The engine: 32 MiB in which RocksDB
# collects rows for its next table, and the states of the newest runs, of a bounded number.
MEMORY_KIB = {"host": (2048, 0), "keeper": (1024, 0), "engine": (34816, 6)}

SLEEPER = places.task("""name: sleeper
goal: be in the sandbox
brain: plan
template: default
plan:
  - name: put
    put_file: {path: note, content: hello}
  - name: sleep
    exec: {argv: [sleep, "${param.seconds}"]}
  - name: end
    finish: {message: done}
parameters: {seconds: "3"}
""")

ONE_COMMAND = places.task("""name: one
goal: run a command
brain: plan
template: default
timeouts: {task: 10m, step: 60s, queue: 5m}
plan:
  - name: only
    exec: {argv: ["true"]}
  - name: end
    finish: {message: done}
""")


class Leaks(Case):

    def setUp(self):
        super().setUp()
        self.task = self.folder / "sleeper.yaml"
        self.task.write_text(SLEEPER)

    def ready_server(self):
        """A server whose images are made, and what it holds at rest."""
        server = self.server(settings=[f"sandbox.adopt_grace_ms={GRACE_SECONDS * 1000}"])
        self.assertEqual(self.sleeper(0.01).wait_for_end()["summary"]["status"], "completed")
        wait_until(lambda: not remains.of_sandboxes(self.data), "the end of the first sandbox")
        return server, resources.of_server(server)

    def sleeper(self, seconds):
        """A job whose command sleeps."""
        run = self.cli.must("run", self.task, "--detach", "--param", f"seconds={seconds}").value["run_id"]
        return Job(self.cli, run)

    def job_in_its_sandbox(self, server, seconds=3):
        """(job, the namespaces of its sandbox)"""
        job = self.sleeper(seconds)
        wait_until(lambda: any(line.endswith(" sleep") for line in remains.of_sandboxes(self.data)), job.describe)
        held = resources.HeldNamespaces(server)
        self.addCleanup(held.close)
        kinds = {name.split(":")[0] for name in held.names}
        self.assertEqual(kinds, set(resources.NAMESPACES) - {"mnt"}, "a sandbox has namespaces of its own")
        return job, held.names

    def assert_gone(self, what, deadline, told):
        """`what` gives a set that must become empty by then."""
        wait_until(lambda: not what(), lambda: f"the end after {told} of\n" + "\n".join(sorted(what())),
                   max(0.0, deadline - time.monotonic()), poll=0.05)

    def living(self):
        """All that the kernel ends by itself: everything but control groups."""
        return {line for line in remains.of_sandboxes(self.data) if not line.startswith("control group")}

    def assert_rest(self, server, rest, deadline, told):
        def difference():
            return resources.of_server(server) ^ rest
        self.assert_gone(difference, deadline, told)
        wait_until(lambda: not self.cli.reservations(), lambda: f"{told}: the end of {self.cli.reservations()}", 10)  # ADV-E15

    # ---- with a restart

    def test_after_each_kill_and_restart_all_comes_back_to_rest(self):
        server, rest = self.ready_server()
        for victims in VICTIMS:
            with self.subTest(victims):
                job, names = self.job_in_its_sandbox(server, 1.5)
                old = {name: server.child(name) for name in victims}
                for pid in old.values():
                    processes.kill(pid)
                killed = time.monotonic()
                if "keeper" in victims:  # the kernel ends the sandbox
                    self.assert_gone(lambda: resources.still_there(names), killed + SETTLING_SECONDS, victims)
                for name in victims:
                    if name != "keeper":
                        server.wait_for_child(name, other_than=old[name])
                detail = job.wait_for_end()
                self.assertIn((detail["summary"]["status"], detail["error_code"]), (("completed", 0), ("failed", 1500)))
                if "keeper" not in victims:
                    self.assertEqual(detail["summary"]["status"], "completed", job.describe())
                self.assert_rest(server, rest, time.monotonic() + SETTLING_SECONDS, victims)
                self.assertEqual(resources.still_there(names), set(), victims)

    def test_a_killed_supervisor_leaves_nothing_once_it_is_started_again(self):
        server, rest = self.ready_server()
        job, names = self.job_in_its_sandbox(server, 30)
        keeper = server.child("keeper")
        server.kill()
        processes.kill(keeper)  # no one is left at all
        self.assert_gone(lambda: self.living() | resources.still_there(names), time.monotonic() + SETTLING_SECONDS, "both")
        self.start(server)
        job.wait_for_end()
        self.assert_rest(server, rest, time.monotonic() + SETTLING_SECONDS, "the restart")

    # ---- without

    def test_a_keeper_alone_ends_everything_after_the_grace(self):
        server, _ = self.ready_server()
        _, names = self.job_in_its_sandbox(server, 60)
        keeper = server.child("keeper")
        server.kill()
        self.assertTrue(processes.is_alive(keeper))
        deadline = time.monotonic() + GRACE_SECONDS + SETTLING_SECONDS
        self.assert_gone(lambda: set(remains.of_sandboxes(self.data)) | resources.still_there(names), deadline, "the supervisor")
        wait_until(lambda: not processes.is_alive(keeper), "the keeper's own end", SETTLING_SECONDS)

    def test_a_host_without_an_engine_ends_everything_after_the_grace(self):
        server, rest = self.ready_server()
        job, names = self.job_in_its_sandbox(server, 60)
        host, engine = server.child("host"), server.child("engine")
        processes.send(server.pid, signal.SIGSTOP)  # nobody starts another engine
        try:
            processes.kill(engine)
            deadline = time.monotonic() + GRACE_SECONDS + SETTLING_SECONDS
            self.assert_gone(lambda: set(remains.of_sandboxes(self.data)) | resources.still_there(names), deadline, "the engine")
            wait_until(lambda: not processes.is_alive(host), "the host's own end", SETTLING_SECONDS)
        finally:
            processes.send(server.pid, signal.SIGCONT)
        self.assertEqual(job.wait_for_end()["error_code"], 1500, job.describe())
        self.assert_rest(server, rest, time.monotonic() + SETTLING_SECONDS, "the restart")

    def test_what_a_dead_host_and_keeper_leave_is_swept_by_doctor(self):
        server, rest = self.ready_server()
        _, names = self.job_in_its_sandbox(server, 60)
        keeper = server.child("keeper")
        server.kill()
        processes.kill(keeper)
        self.assert_gone(lambda: self.living() | resources.still_there(names), time.monotonic() + SETTLING_SECONDS, "both")
        self.assertNotEqual(resources.of_server(server) - rest, set(), "nothing was left to sweep: the test shows nothing")
        swept = self.cli.call("doctor", "--clean", environment={"SANDGLASS_SET": "engine.idle_exit_ms=300"})
        self.assertEqual(resources.of_server(server) - rest, set(), str(swept))
        wait_until(lambda: not self.servers(), lambda: f"the end of {self.servers()}")  # those that doctor started

    def servers(self):
        """Command lines of supervisors of the folder."""
        lines = [processes.command_line_of(pid) for pid in processes.all_pids()]
        return [line for line in lines if str(self.data) in line and line[0].endswith("sandglassd")]

    # ---- many sandboxes

    def held(self, server):
        """(descriptors and threads, memory in KiB), by program."""
        counts, memory = {}, {}
        for name in MEMORY_KIB:
            pid = server.wait_for_child(name)
            counts[name] = resources.descriptors(pid) | resources.threads(pid)
            for thread, most in BEGUN_LATE.items():
                if counts[name].get(thread, most + 1) <= most:
                    del counts[name][thread]
            memory[name] = resources.resident_kib(pid)
        return counts, memory

    def run_many(self, count):
        """That many runs, AT_ONCE of them at a time, each with a sandbox and a command."""
        started, done = 0, 0
        while done < count:
            while started < count and started - done < 2 * AT_ONCE:
                self.cli.must("run", self.folder / "one.yaml", "--detach")
                started += 1
            listed = self.cli.call("list", "--limit", "200", "--status", "running")
            self.assertIn(listed.status, (0, AWAY))
            done = started - len(listed.value["runs"])
        wait_until(lambda: not remains.of_sandboxes(self.data), "the end of the last sandbox")

    def test_many_sandboxes_leave_no_descriptor_and_no_memory(self):
        """ADV-E29"""
        (self.folder / "one.yaml").write_text(ONE_COMMAND)
        server = self.server(settings=[f"limits.sandboxes={AT_ONCE}", f"limits.sandboxes_per_user={AT_ONCE}"])
        self.run_many(WARM_UP)
        rest = resources.of_server(server)
        counts, memory = self.held(server)
        begin = time.monotonic()
        self.run_many(CYCLES)
        seconds = time.monotonic() - begin
        def same():
            return self.held(server)[0] == counts
        wait_until(same, lambda: f"descriptors {counts} to come back; now {self.held(server)[0]}", SETTLING_SECONDS)
        self.assert_rest(server, rest, time.monotonic() + SETTLING_SECONDS, f"{CYCLES} sandboxes")
        now = self.held(server)[1]
        print(f"{CYCLES} sandboxes in {seconds:.1f} s; KiB resident before and after: "
              f"{ {name: (memory[name], now[name]) for name in memory} }", flush=True)
        for name, (at_all, each) in MEMORY_KIB.items():
            self.assertLessEqual(now[name] - memory[name], at_all + each * CYCLES, f"KiB of the {name}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
