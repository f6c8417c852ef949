"""The main job with one process killed at each named crash point of every program: it completes with one effect.

STAGES says which points belong to which stage of the system. The test fails if a stage has no point, if a listed point
belongs to none, and if a point was not reached. Besides the first passage of each point later ones are drawn; the seed is
printed, SANDGLASS_SEED=N repeats them. SANDGLASS_LONG=1 draws a hundred, and has each point of the engine once more with
its journal on one Kafka broker and on three.
"""

import concurrent.futures
import os
import random
import subprocess
import threading
import time
import unittest

from harness import places, processes, remains
from harness.case import Case
from harness.command_line import CommandLine
from harness.kafka import Brokers
from harness.main_job import Approver, Job
from harness.waiting import wait_until

PROGRAMS = ("sandglassd", "sandglass-engine", "sandglass-effect", "sandglass-egress", "sandglass-host",
            "sandglass-keeper")

STAGES = {
    "supervisor: a start": ("supervisor.egress_started", "supervisor.host_started", "supervisor.executor_started",
                            "supervisor.engine_ready"),
    "supervisor: the end of executors": ("supervisor.engine_ended", "supervisor.executor_ended", "supervisor.executor_lost"),
    "supervisor: a stop": ("supervisor.engine_stopped",),
    "engine: a start": ("engine.folder_locked", "engine.before_ready", "first_start.token_file_written"),
    "engine: its folder given to its user": ("folder_owner.before_folder", "folder_owner.before_top"),
    "journal: taking over": ("journal.owned", "shard.recovering"),
    "journal: a record decided": ("shard.before_submit",),
    "journal: a record durable": ("journal.before_sync", "journal.after_sync"),
    "journal: what it caused released": ("shard.durable_before_release", "shard.released"),
    "journal: state snapshots": ("shard.snapshot_due", "shard.snapshot_loaded"),
    "journal: messages between streams": ("shard.message_arrived", "shard.deliveries_booked"),
    "journal: timers": ("shard.timer_fired",),
    "kafka: taking over": ("kafka.initialised", "kafka.fence_delivered", "kafka.fence_committed", "kafka.read",
                           "kafka.published_found", "kafka.tail_published", "kafka.epoch_committed"),
    "kafka: a record durable": ("kafka.delivered", "kafka.applied"),
    "kafka: publishing": ("kafka.before_commit", "kafka.committed"),
    "effect: a place": ("operations.place_given",),
    "effect: intent durable": ("operations.before_effect", "effect.submitted"),
    "effect: in the executor": ("effect.received", "effect.before_send", "effect.after_answer"),
    "effect: outcome on its way": ("operations.after_effect",),
    "effect: unknown, asked about": ("operations.before_probe", "operations.after_probe"),
    "lease: given": ("lease.before_create", "lease.created"),
    "lease: renewed": ("lease.before_renewal", "lease.renewed", "host.lease_renewed"),
    "lease: ended": ("lease.before_destruction", "lease.destroyed", "host.lease_ended"),
    "lease: the way out": ("egress.listener_added", "egress.lease_begun", "egress.lease_ended"),
    "provider: a create": ("host.recorded", "launcher.recorded", "launcher.grouped", "launcher.image_made",
                           "keeper.before_clone", "keeper.launched", "launcher.launched", "host.launched"),
    "provider: an exec": ("host.exec_readied", "host.exec_placed", "host.exec_started", "host.exec_done"),
    "provider: files": ("host.put_opened", "host.get_opened", "host.transfer_done"),
    "provider: adoption": ("host.adopted",),
    "provider: a destruction": ("launcher.killed", "keeper.before_forget", "launcher.removed"),
    "approval: decided": ("approval.before_decision", "approval.decided"),
    "artifact: bytes": ("blob.before_rename", "blob.before_folder_sync", "blob.stored"),
    "artifact: stored": ("artifact.before_store", "artifact.stored"),
}
# Of the embedded journal; the last one's situation ends the whole server, and whoever calls then starts one that knows
# nothing of the brokers.
EMBEDDED = ("journal.owned", "journal.before_sync", "journal.after_sync", "shard.snapshot_loaded")
# Points that the job passes many times in one process.
BUSY_PARTS = ("blob.", "host.exec_", "journal.", "shard.", "operations.")
LATER_PASSAGES = 100 if places.LONG else 4
LATEST_PASSAGE = 25
AT_ONCE = 3
# With the keeper its sandboxes end, and a job that has lost its sandbox fails before its effect.
LOST = (1500, 1502, 1503, 1507, 1508, 1509)

SLEEPER = places.task("""name: sleeper
goal: be in the sandbox for a while
brain: plan
template: default
plan:
  - name: sleep
    exec: {argv: [sleep, "%s"]}
  - name: end
    finish: {message: done}
""")


def kill_when_the_command_runs(name):
    def disturb(server, job, _):
        wait_until(lambda: any(line.endswith(" sleep") for line in remains.of_sandboxes(server.data)),
                   lambda: f"the command of {job.describe()}")
        server.kill_child(name)
    return disturb


def kill_all_between_effect_and_answer(server, _, outside):
    """The run was parked before, so it has a snapshot. (After an engine's end alone its successors have no crash point.)"""
    wait_until(outside.effects, "the effect", poll=0.005)
    processes.kill(server.pid)


class Situation:
    """What has to be so that a point is passed. `kafka`: how many brokers have the journal."""

    def __init__(self, *, receiver=(), settings=(), task=None, disturb=None, kafka=0):
        self.receiver, self.settings, self.task, self.disturb = receiver, settings, task, disturb
        self.kafka = kafka

    def on_kafka(self, brokers):
        return Situation(receiver=self.receiver, settings=self.settings, task=self.task, disturb=self.disturb, kafka=brokers)


USUAL = Situation()
LOST_ANSWER = Situation(receiver=("--drop-reply", 1, "--late-ms", 400))
SHORT_LEASE = Situation(settings=("sandbox.lease_ms=4000",), task=SLEEPER % 5)
ON_KAFKA = USUAL.on_kafka(1)
LONGER_LEASE = Situation(settings=("sandbox.lease_ms=12000",), task=SLEEPER % 8)  # an engine takes over in less
A_WAY_OUT = Situation(task=(SLEEPER % 1).replace(f"template: {places.TEMPLATE}", f"template: {places.NETWORK}"))
SITUATIONS = {
    **{point: ON_KAFKA for stage, points in STAGES.items() if stage.startswith("kafka: ") for point in points},
    "egress.listener_added": A_WAY_OUT,
    "egress.lease_begun": A_WAY_OUT,
    "egress.lease_ended": A_WAY_OUT,
    "operations.before_probe": LOST_ANSWER,
    "operations.after_probe": LOST_ANSWER,
    "shard.timer_fired": LOST_ANSWER,
    "lease.before_renewal": SHORT_LEASE,
    "lease.renewed": SHORT_LEASE,
    "host.lease_renewed": SHORT_LEASE,
    "host.adopted": Situation(task=SLEEPER % 2, disturb=kill_when_the_command_runs("host")),
    "shard.snapshot_loaded": Situation(receiver=("--reply-delay-ms", 1000),
                                       disturb=kill_all_between_effect_and_answer),
    "supervisor.engine_ended": Situation(task=SLEEPER % 2, disturb=kill_when_the_command_runs("engine")),
    "supervisor.executor_ended": Situation(task=SLEEPER % 2, disturb=kill_when_the_command_runs("engine")),
    "supervisor.executor_lost": Situation(task=SLEEPER % 2, disturb=kill_when_the_command_runs("effect")),
}


# What a plain user's server never does.
NEEDS_ROOT = {
    "folder_owner.before_folder": "its engine has no user of its own",
    "folder_owner.before_top": "its engine has no user of its own",
    "host.exec_readied": "no child is made ready without control groups",
    "launcher.image_made": "its sandboxes have no disk of the machine's",
}


def listed_points(programs=PROGRAMS):
    points = set()
    for program in programs:
        points.update(subprocess.run([places.program(program), "--list-crash-points"], check=True, text=True,
                                     capture_output=True, timeout=30).stdout.split())
    return sorted(points)


class Guard:
    """Starts the server again when its supervisor has been killed."""

    def __init__(self, server, environment):
        self._server, self._environment = server, environment
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.02):
            if self._server.process.poll() is not None:
                self._server.start(self._environment)

    def close(self):
        self._stop.set()
        self._thread.join()


class CrashPoints(Case):

    def setUp(self):
        super().setUp()
        self.jobs = 0
        self.lock = threading.Lock()
        self.brokers = None

    def kafka_configuration(self, topic, count):
        """Brokers that the test's jobs share, started for the first of them."""
        with self.lock:
            if not self.brokers:
                self.brokers = Brokers(self.folder / "brokers", count)
                self.addCleanup(self.brokers.stop)
        return self.brokers.configuration(topic)

    def job_with_crash(self, at, situation=USUAL):
        """True if a process was killed there. The job must end well either way."""
        with self.lock:
            self.jobs += 1
            number = self.jobs
        data = self.folder / f"data-{number}"
        cli = CommandLine(data)
        mark = self.folder / f"mark-{number}"
        outside = self.receiver(*situation.receiver, folder=f"receiver-{number}")
        config = outside.configuration()
        if situation.kafka:
            config += self.kafka_configuration(f"history-{number}", situation.kafka)
        server = self.server(data, config=config, settings=situation.settings, start=False)
        environment = {"SANDGLASS_CRASH_AT": at, "SANDGLASS_CRASH_ONCE": str(mark)}
        reports = [server.start(environment)]
        if reports[0] != "ready" and server.wait(5) < 0:  # the supervisor was to die before that
            reports.append(server.start(environment))
        self.assertEqual(reports[-1], "ready", f"{at}: {server.log_text()}")
        guard = Guard(server, environment)
        try:
            effects = self.run_job(at, situation, cli, outside, server)
        finally:
            guard.close()
        self.assertEqual(outside.effects(), effects, at)
        self.assertEqual(len(outside.pulls()), effects, at)
        # On Kafka the topic is the history; a server's folder has on its disk what was written before the crash, or less.
        if not situation.kafka:
            self.assertIs(cli.must("audit", "verify").value["good"], True, at)
        wait_until(lambda: not remains.of_sandboxes(data),
                   lambda: f"{at}: the end of " + "\n".join(remains.of_sandboxes(data)), seconds=40)
        # ADV-E15: what is counted is what is there.
        if not situation.kafka:
            wait_until(lambda: not cli.reservations(), lambda: f"{at}: the end of {cli.reservations()}", seconds=10)
        self.assertIn(server.stop(), (0, -9) if at == "supervisor.engine_stopped" else (0,), at)
        if situation.kafka:  # the last commit is at the stop, so the crash may have been there: once more to an orderly end
            self.assertEqual(server.start(environment), "ready", f"{at}: {server.log_text()}")
            self.assertEqual(server.stop(), 0, at)
            self.assertFalse(cli.reservations(), at)
            self.assertIs(cli.must("audit", "verify").value["good"], True, at)
        self.assert_history_replays(data)
        outside.stop()
        return mark.exists() and mark.stat().st_size > 0

    def run_job(self, at, situation, cli, outside, server):
        """How many effects there must be."""
        approver = None
        if situation.task:
            task = server.data.with_name(f"{server.data.name}.task.yaml")  # others run beside it
            task.write_text(situation.task)
            job = Job(cli, cli.must("run", task, "--detach").value["run_id"])
        else:
            job = Job.start(cli, outside, request_id="the job")
            approver = Approver(job)
        try:
            if situation.disturb:
                situation.disturb(server, job, outside)
            detail = job.wait_for_end(60)
        finally:
            if approver:
                approver.close()
        if at.startswith("keeper.") and detail["summary"]["status"] == "failed":
            self.assertIn(detail["error_code"], LOST, f"{at}: {job.describe()}")
            return outside.effects() if detail["operations"] else 0
        self.assertEqual(detail["summary"]["status"], "completed", f"{at}: {job.describe()}")
        return 0 if situation.task else 1

    def jobs_with_crashes(self, wanted, check=lambda at, was_hit: None, kafka=0):
        """Some at a time; `check` gets each."""
        def one(at):
            begin = time.monotonic()
            situation = SITUATIONS.get(at, USUAL)
            if kafka:
                situation = (LONGER_LEASE if situation is SHORT_LEASE else situation).on_kafka(kafka)
            was_hit = self.job_with_crash(at, situation)
            if not was_hit and kafka:  # an engine that had to take over again has successors without a crash point
                was_hit = self.job_with_crash(at, situation)
            print(f"{at}: {'killed' if was_hit else 'not passed'}, {time.monotonic() - begin:.1f} s", flush=True)
            return was_hit
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for at, future in [(at, pool.submit(one, at)) for at in wanted]:
                with self.subTest(at):
                    check(at, future.result())

    def test_every_stage_has_points_and_every_point_a_stage(self):
        points = listed_points()
        for stage, wanted in STAGES.items():
            self.assertTrue(wanted, stage)
            self.assertEqual(set(wanted) - set(points), set(), f"no such points, of the stage {stage}")
        of_stages = [point for wanted in STAGES.values() for point in wanted]
        self.assertEqual(sorted(of_stages), points, "each point belongs to one stage")

    def test_every_point_is_reached_and_survived(self):
        def check(at, was_hit):
            if os.geteuid() != 0 and at in NEEDS_ROOT:
                self.assertFalse(was_hit, f"{at} needs root no longer")
                print(f"{at}: needs root: {NEEDS_ROOT[at]}", flush=True)
            else:
                self.assertTrue(was_hit, f"{at} was never reached")
        self.jobs_with_crashes(listed_points(), check)

    def points_of_the_engine_on_kafka(self, brokers):
        points = [point for point in listed_points(["sandglass-engine"]) if point not in EMBEDDED]
        self.jobs_with_crashes(points, lambda at, was_hit: self.assertTrue(was_hit, f"{at} was never reached"), brokers)

    @unittest.skipUnless(places.LONG, "minutes: in the long form")
    def test_every_point_of_the_engine_is_survived_on_one_broker(self):
        self.points_of_the_engine_on_kafka(1)

    @unittest.skipUnless(places.LONG, "minutes: in the long form")
    def test_every_point_of_the_engine_is_survived_on_three_brokers(self):
        self.points_of_the_engine_on_kafka(3)

    def test_later_passages_are_survived(self):
        seed = int(os.environ.get("SANDGLASS_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"SANDGLASS_SEED={seed}", flush=True)
        draw = random.Random(seed)
        points = [point for point in listed_points() if point.startswith(BUSY_PARTS) and point not in SITUATIONS]
        self.jobs_with_crashes([f"{draw.choice(points)}:{draw.randint(2, LATEST_PASSAGE)}" for _ in range(LATER_PASSAGES)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
