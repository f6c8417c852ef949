"""What keeps the server's processes apart (V2): uids, capabilities, what each can see and write, and whom the sandbox host
listens to. With real processes, looked at from outside and tried from inside."""

import os
import pathlib
import socket
import subprocess
import unittest

from harness import inside, places, processes
from harness.case import Case, needs_root
from harness.waiting import wait_until

FIRST_UID = 2**19 - 256
EGRESS, EFFECT, ENGINE, STRANGER = FIRST_UID, FIRST_UID + 1, FIRST_UID + 2, 12345
UIDS = {"egress": EGRESS, "effect": EFFECT, "engine": ENGINE}
BOUND = pathlib.Path("/run/sandglass/data")
ZONES = "/usr/share/zoneinfo"
PARTS = {"journal", "blobs", "run", "tokens", "lock"}  # what the engine may write
SECRETS = ("format", "keys/tenant", "tokens/operator", "journal/CURRENT")
MACHINE, BAD_FOLDER = 10, 8
TASK = "name: nothing\ngoal: nothing\nbrain: plan\nplan:\n  - name: end\n    finish: {message: done}\n"


def status_of(pid):
    """Field → text, of /proc/PID/status."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


def mounts_of(pid):
    """(mount point, options) of each mount that the process sees."""
    for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        fields = line.split()
        yield fields[4], fields[5].split(",")


def owners(folder):
    """Path below the folder → uid, of everything in it and of itself."""
    found = {".": folder.lstat().st_uid}
    for path in folder.rglob("*"):
        found[str(path.relative_to(folder))] = path.lstat().st_uid
    return found


def can_connect(path):
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(str(path))
    return "connected"


def places_that_can_be_written():
    """All folders of the root in which a file can be made, and all files that can be opened for writing."""
    found = []
    for folder, names, files in os.walk("/"):
        if folder == "/":
            names.remove("proc")
        try:
            os.close(os.open(f"{folder}/made-by-test", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            os.unlink(f"{folder}/made-by-test")
            found.append(folder)
        except OSError:
            pass
        for name in files:
            path = os.path.join(folder, name)
            if not path.startswith("/dev/") and os.access(path, os.W_OK, follow_symlinks=False):
                found.append(path)
    return found


@needs_root("only root's processes have uids of their own")
class AsRoot(Case):
    """The server was started by root."""

    def start_hello(self, name="Ann"):
        ended = self.cli.must("start", "hello", "--input", f'{{"name": "{name}"}}', "--wait")
        self.assertEqual(ended.values[-1]["summary"]["status"], "completed", str(ended))
        return ended.values[0]["run_id"]

    def doctor(self):
        return {check["name"]: check for check in self.cli.must("doctor").value["checks"]}

    def assert_own_uids_and_nothing_more(self, server):
        for name, uid in UIDS.items():
            status = status_of(server.wait_for_child(name))
            with self.subTest(name):
                self.assertEqual(status["Uid"].split(), [str(uid)] * 4)
                self.assertEqual(status["Gid"].split(), [str(uid)] * 4)
                self.assertEqual(status["Groups"], "")
                for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                    self.assertEqual(int(status[kind], 16), 0, kind)
                self.assertEqual(status["NoNewPrivs"], "1")
                # The small process that follows the machine's resolvers, where they are not configured.
                for pid in processes.descendants_of(server.child(name)):
                    status = status_of(pid)
                    self.assertEqual(status["Uid"].split(), [str(uid)] * 4)
                    self.assertEqual(int(status["CapPrm"], 16) | int(status["CapBnd"], 16), 0)

    def test_three_uids_without_capabilities_and_only_supervisor_host_and_keeper_are_root(self):
        server = self.server()
        self.start_hello()
        self.assert_own_uids_and_nothing_more(server)
        for pid in (server.pid, server.child("host"), server.wait_for_child("keeper")):
            self.assertEqual(status_of(pid)["Uid"].split(), ["0"] * 4)
        killed = server.kill_child("engine")
        server.wait_for_child("engine", other_than=killed)
        self.start_hello("Bob")
        self.assert_own_uids_and_nothing_more(server)
        check = self.doctor()["process separation"]
        self.assertEqual(check["verdict"], "works", check)
        for uid in UIDS.values():
            self.assertIn(str(uid), check["detail"])

    def test_the_engine_sees_the_data_folder_and_nothing_else_of_the_machine(self):
        canary = self.folder / "canary"
        canary.write_text("everybody may read this")
        canary.chmod(0o644)
        server = self.server()
        engine = server.child("engine")
        for point, options in mounts_of(engine):
            with self.subTest(point):
                below = pathlib.Path(point).relative_to(BOUND) if point.startswith(str(BOUND)) else None
                self.assertTrue(below is not None or point in ("/", "/proc", ZONES) or point.startswith("/dev/"), point)
                may_write = point.startswith("/dev/") or (below is not None and str(below) in PARTS)
                self.assertEqual("ro" not in options, may_write, options)
                self.assertIn("nosuid", options)
        looks = {path: inside.call(lambda path=path: os.listdir(path) and "seen", mounts_of=engine, uid=ENGINE)
                 for path in ("/etc", "/root", "/home", "/usr/bin", "/usr/lib", "/opt", "/var", "/sys", "/srv")}
        self.assertEqual(set(looks.values()), {"FileNotFoundError"}, looks)
        # Time zones, which schedules ask for, and nothing beside them.
        beside = [inside.call(lambda path=path: os.listdir(path), mounts_of=engine, uid=ENGINE) for path in ("/usr", "/usr/share")]
        self.assertEqual(beside, [["share"], ["zoneinfo"]])
        # Not even root finds it there: it is not hidden by rights, it is not there.
        self.assertEqual(inside.call(canary.read_text, mounts_of=engine), "FileNotFoundError")
        self.assertEqual(inside.call(lambda: sorted(os.listdir(BOUND)), mounts_of=engine, uid=ENGINE),
                         sorted(os.listdir(self.data)))
        others = inside.call(lambda: [name for name in os.listdir("/proc") if name.isdigit()], mounts_of=engine,
                             uid=EFFECT)
        self.assertNotIn(str(server.pid), others)

    def test_the_engine_can_write_its_parts_of_the_data_folder_and_nowhere_else(self):
        server = self.server()
        self.start_hello()
        written = inside.call(places_that_can_be_written, mounts_of=server.child("engine"), uid=ENGINE)
        parts = {pathlib.Path(path).relative_to(BOUND).parts[0] for path in written}
        self.assertEqual(parts, PARTS)

    def test_effect_and_egress_reach_neither_data_folder_nor_keys_nor_socket(self):
        server = self.server()
        self.start_hello()
        for name in ("effect", "egress"):
            pid = server.child(name)
            for path in [self.data / each for each in SECRETS] + [BOUND / each for each in SECRETS]:
                with self.subTest(f"{name} {path}"):
                    self.assertEqual(inside.call(path.read_bytes, mounts_of=pid), "FileNotFoundError")
            for path in (self.data / "run/api.sock", self.data / "host/host.sock"):
                with self.subTest(f"{name} {path}"):
                    self.assertEqual(inside.call(lambda path=path: can_connect(path), mounts_of=pid),
                                     "FileNotFoundError")
                    # A second wall: the uid alone is refused too, where all can be seen.
                    self.assertEqual(inside.call(lambda path=path: can_connect(path), uid=UIDS[name]),
                                     "PermissionError")
            self.assertEqual(inside.call((self.data / "keys/tenant").read_bytes, uid=UIDS[name]), "PermissionError")
            self.assertFalse([point for point, options in mounts_of(pid) if point != "/" and "ro" not in options
                              and not point.startswith("/dev/")])

    def test_the_host_listens_to_root_and_the_engines_uid_alone(self):
        self.server()
        self.start_hello()
        path = self.data / "host/host.sock"
        # The engine does not wait for the host, which first looks at what the machine can do.
        wait_until(lambda: path.exists() and path.stat().st_uid == ENGINE, "the host's socket, owned by the engine's uid")
        about = path.stat()
        self.assertEqual((about.st_uid, about.st_mode & 0o777), (ENGINE, 0o600))
        folder = os.open(path.parent, os.O_PATH)
        self.addCleanup(os.close, folder)
        near = f"/proc/self/fd/{folder}/host.sock"  # past the folders above, which let no stranger in

        def is_heard():
            """Whether the connection stays open; a stranger's is closed before a word is said."""
            with socket.socket(socket.AF_UNIX) as end:
                end.connect(near)
                end.settimeout(1)
                try:
                    return end.recv(1) != b""
                except TimeoutError:
                    return True
                except ConnectionResetError:
                    return False

        def ask(uid):
            return inside.call(is_heard, uid=uid)

        for uid in (STRANGER, EGRESS, EFFECT):
            self.assertEqual(inside.call(lambda: can_connect(path), uid=uid), "PermissionError", uid)
            self.assertEqual(ask(uid), "PermissionError", uid)
        path.chmod(0o666)  # the credentials alone now
        for uid in (STRANGER, EGRESS, EFFECT):
            self.assertIs(ask(uid), False, uid)
        self.assertIs(ask(ENGINE), True)
        self.assertIs(ask(0), True)

    def test_a_data_folder_deep_below_folders_that_only_root_may_enter(self):
        parent = self.folder / "private"
        for name in ("x" * 60, "y" * 60):
            parent.mkdir(mode=0o700)
            parent = parent / name
        parent.mkdir(mode=0o700)
        self.cli.data = str(parent / "data")
        self.server(parent / "data")
        self.start_hello()
        self.assertEqual((parent / "data").stat().st_uid, ENGINE)
        self.assertEqual(self.doctor()["process separation"]["verdict"], "works")

    def test_nothing_is_left_when_the_supervisor_was_killed(self):
        server = self.server()
        self.start_hello()
        wait_until(lambda: server.child("keeper"), "the keeper")
        children = processes.descendants_of(server.pid)
        names = {processes.program_of(pid).removeprefix("sandglass-") for pid in children}
        self.assertLessEqual({"engine", "effect", "egress", "host", "keeper"}, names)
        server.kill()
        wait_until(lambda: not any(processes.is_alive(pid) for pid in children),
                   lambda: f"the end of {[processes.program_of(pid) for pid in children]}", seconds=5)

    def test_the_command_line_reads_a_folder_without_an_engine_and_changes_no_owner(self):
        server = self.server()
        run = self.start_hello()
        self.assertEqual(server.stop(), 0)
        before = owners(self.data)
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)
        self.assertEqual(self.cli.must("debug", run, "--all").values[-1]["state"]["status"], "completed")
        self.assertEqual(owners(self.data), before)
        self.start(server)
        self.assertEqual(self.cli.must("list").value["runs"][0]["run_id"], run)

    def test_a_link_planted_as_a_token_is_not_followed(self):
        self.server()
        secret = self.folder / "secret"
        secret.write_text("sgt_" + "0" * 64)
        (self.data / "tokens" / "planted").symlink_to(secret)
        ended = self.cli.call("list", as_name="planted", json_output=False)
        self.assert_error(ended, 1300, 5, "no readable token")


@needs_root("it gives folders to other users")
class OlderFolder(Case):
    """A data folder in which the engine was root."""

    def setUp(self):
        super().setUp()
        server = self.server(settings=["processes.first_uid=0"])
        self.run_id = self.cli.must("start", "hello", "--wait").values[0]["run_id"]
        check = {each["name"]: each for each in self.cli.must("doctor").value["checks"]}["process separation"]
        self.assertEqual(check["verdict"], "weaker")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(set(owners(self.data).values()), {0})
        # As versions before this one had it.
        for name in ("jails", "sandboxes"):
            (self.data / "host" / name).rename(self.data / "run" / name)
        (self.data / "run/host.lock").touch()
        for path in (self.data / "host").iterdir():
            path.unlink()
        (self.data / "host").rmdir()
        (self.data / "lock").unlink()

    def assert_it_goes_on(self):
        self.server()
        self.assertEqual(self.cli.must("list").value["runs"][0]["run_id"], self.run_id)
        self.cli.must("start", "hello", "--wait")
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)
        self.assertEqual(self.data.stat().st_mode & 0o777, 0o700)
        found = owners(self.data)
        roots = {"host", "log", "supervisor.lock", "effect.lock"}
        for path, uid in found.items():
            part = path.split("/")[0]
            if part not in roots:
                self.assertEqual(uid, ENGINE, path)
            elif path != "host/host.sock":
                self.assertEqual(uid, 0, path)
        self.assertTrue((self.data / "host/jails").is_dir())
        self.assertFalse((self.data / "run/jails").exists())

    def test_goes_on_under_the_engines_uid(self):
        self.assert_it_goes_on()

    def test_goes_on_when_the_change_of_owner_was_killed_midway(self):
        for point in ("folder_owner.before_folder:1", "folder_owner.before_folder:3", "folder_owner.before_top"):
            server = self.server(start=False)
            self.assertIn("ended without a report", server.start({"SANDGLASS_CRASH_AT": point}), point)
            self.assertEqual(self.data.stat().st_uid, 0, point)
        self.assert_it_goes_on()

    def assert_refused(self, *words):
        server = self.server(start=False)
        report = server.start()
        self.assertTrue(report.startswith("error 1007 "), report)
        for word in words:
            self.assertIn(word, report)
        self.assertEqual(server.wait(), MACHINE)
        self.assertEqual(self.data.stat().st_uid, 0)

    def test_a_part_that_is_a_link_is_refused_and_what_it_points_to_keeps_its_owner(self):
        elsewhere = self.folder / "elsewhere"
        (self.data / "blobs").rename(elsewhere)
        (elsewhere / "file").touch()
        (self.data / "blobs").symlink_to(elsewhere)
        self.assert_refused(f"{self.data}/blobs", "mount --bind", "first_uid")
        self.assertEqual(set(owners(elsewhere).values()), {0})

    def test_links_inside_are_not_followed_and_a_second_name_of_a_file_is_not_given_away(self):
        target = self.folder / "target"
        target.write_text("root's")
        (self.data / "blobs" / "soft").symlink_to(target)
        os.link(target, self.data / "blobs" / "hard")
        self.assert_refused(f"{self.data}/blobs/hard", "hard link")
        self.assertEqual(target.stat().st_uid, 0)
        (self.data / "blobs" / "hard").unlink()
        self.server()
        self.assertEqual(target.stat().st_uid, 0)
        self.assertEqual((self.data / "blobs" / "soft").lstat().st_uid, ENGINE)


class OtherFolders(Case):

    def test_a_folder_with_other_things_in_it_is_not_taken_and_not_touched(self):
        # Somebody's home, or /etc, by mistake: root would give it away.
        self.data.mkdir(mode=0o755)
        (self.data / "letter").write_text("dear")
        self.assertIn("letter", self.server(start=False).start())
        self.assertEqual(owners(self.data), {".": os.geteuid(), "letter": os.geteuid()})
        (self.folder / "task.yaml").write_text(TASK)
        self.assert_error(self.cli.call("run", self.folder / "task.yaml"), 1107, BAD_FOLDER, "letter")
        self.assertEqual(owners(self.data), {".": os.geteuid(), "letter": os.geteuid()})

    @needs_root("it gives a folder to another user")
    def test_a_folder_of_somebody_else_is_refused_and_says_what_to_do(self):
        self.server().stop()
        os.chown(self.data, STRANGER, STRANGER)
        server = self.server(start=False)
        report = server.start()
        for word in (f"belongs to uid {STRANGER}", "chown -R root:"):
            self.assertIn(word, report)
        self.assertEqual(server.wait(), MACHINE)
        subprocess.run(["chown", "-R", "root:", str(self.data)], check=True)
        self.start(server)
        self.assertEqual(self.data.stat().st_uid, ENGINE)


class StartedOtherwise(Case):
    """The server was not started by a root that may do everything."""

    def begin(self, *prefix, programs=places.BIN, **options):
        """sandglassd of `programs` under the command `prefix` and with Popen's `options`; (process, report)."""
        log = open(self.folder / "log", "ab")
        self.addCleanup(log.close)
        reading, writing = os.pipe()
        server = subprocess.Popen([*prefix, str(programs / "sandglassd"), "--data", str(self.data), "--ready-fd",
                                   str(writing)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  pass_fds=[writing], start_new_session=True, **options)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            return server, pipe.readline().strip()

    def checks(self):
        return {check["name"]: check for check in self.cli.must("doctor").value["checks"]}


@needs_root("it gives up a right of root's")
class AsRootWithoutMounts(StartedOtherwise):

    def test_the_uids_still_separate_and_doctor_says_what_is_missing(self):
        without = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
        server, report = self.begin(*without)
        for word in ("error 1007", str(ENGINE), "CAP_SYS_ADMIN", "chmod o+x"):  # the test's folder is root's alone
            self.assertIn(word, report)
        server.wait()
        self.folder.chmod(0o711)
        server, report = self.begin(*without)
        self.assertEqual(report, "ready", (self.folder / "log").read_text())
        check = self.checks()["process separation"]
        self.assertEqual(check["verdict"], "weaker", check)
        self.assertIn("CAP_SYS_ADMIN", check["detail"])
        found = {processes.program_of(pid): status_of(pid) for pid in processes.children_of(server.pid)}
        for name, uid in UIDS.items():
            self.assertEqual(found[f"sandglass-{name}"]["Uid"].split(), [str(uid)] * 4)
            self.assertEqual(int(found[f"sandglass-{name}"]["CapBnd"], 16), 0)


class AsAUser(StartedOtherwise):

    def test_doctor_says_that_it_is_weaker_and_effect_and_egress_are_shut_off_all_the_same(self):
        user = os.geteuid()
        other = {}
        if user == 0:
            user = STRANGER
            other = {"user": user, "group": user, "extra_groups": []}
            os.chown(self.folder, user, user)
        server, report = self.begin(programs=places.copy_programs(self.folder / "bin"), **other)
        self.assertEqual(report, "ready", (self.folder / "log").read_text())
        checks = self.checks()
        check = checks["process separation"]
        self.assertEqual(check["verdict"], "weaker", check)
        for word in (f"uid {user}", "Landlock", "as root"):
            self.assertIn(word, check["detail"])
        self.assertEqual(checks["sandbox server's cpu share"]["verdict"], "weaker")
        for pid in processes.children_of(server.pid):
            name = processes.program_of(pid)
            status = status_of(pid)
            self.assertEqual(status["Uid"].split(), [str(user)] * 4, name)
            if name in ("sandglass-effect", "sandglass-egress"):
                self.assertEqual(status["NoNewPrivs"], "1", name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
