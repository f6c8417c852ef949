"""Bad input through the command line: the message says what, where and what to do; the exit code is the documented
one (docs/guides/exit-codes.md); nothing has happened."""

import unittest

from harness import places
from harness.case import Case

USAGE, BAD_FILE, UNREACHABLE, DENIED, NOT_FOUND, MACHINE, RUN_FAILED = 2, 3, 4, 5, 6, 10, 20

TASK = places.task("""name: probe
goal: nothing
brain: plan
template: default
plan:
  - name: only
    exec: {argv: ["true"]}
""")

# What is wrong → (the task file's text, error code, words of the message).
BAD_TASKS = {
    "an unknown field inside a step": (TASK + "    colour: red\n", 1401, ["task.yaml:8", "colour"]),
    "an unknown key of the operator": (TASK + "network:\n  internal: []\n", 1401, ["task.yaml:8", "network"]),
    "a range that only the operator may name": (TASK + "network:\n  - {host: receiver.test, ranges: [127.0.0.1/32]}\n", 1401,
                                               ["task.yaml:9", "ranges"]),
    "a list where text belongs": (TASK.replace("goal: nothing", "goal: [a, b]"), 1401, ["task.yaml:2", "goal"]),
    "text where a list belongs": (TASK + "outputs: fix.diff\n", 1401, ["task.yaml:8", "outputs"]),
    "YAML that ends too early": (TASK + "outputs: [a, b\n", 1401, ["task.yaml:"]),
    "a tab as indentation": ("name: probe\nplan:\n\t- name: x\n", 1401, ["task.yaml:3"]),
    "the same key twice": (TASK + "goal: again\n", 1401, ["task.yaml:8", "goal"]),
    "no plan": ("name: probe\ngoal: nothing\nbrain: plan\n", 1401, ["task.yaml", "plan"]),
    "an unknown brain": (TASK.replace("brain: plan", "brain: oracle"), 1401, ["task.yaml:3", "oracle"]),
    "an empty file": ("", 1401, ["task.yaml"]),
    "a number where a command needs text": (TASK.replace('["true"]', "[seq, 3]"), 1401, ["task.yaml:7", "argv", "quotes"]),
}

BAD_CONFIGURATIONS = {
    "text where a number belongs": ("limits:\n  sandboxes: many\n", ["data.yaml:2", "limits.sandboxes", "whole number"]),
    "a list where a map belongs": ("limits: [1, 2]\n", ["data.yaml:1", "limits"]),
    "YAML that ends too early": ("limits: {sandboxes: 3\n", ["data.yaml:"]),
    "a range without its length": ("network:\n  internal:\n    - {host: a.test, ports: [1], ranges: [127.0.0.1]}\n",
                                   ["data.yaml:3", "127.0.0.1/32"]),
    "a name as address to listen on": ("listen:\n  tcp: localhost:0\n", ["data.yaml:2", "localhost:0"]),
}


class BadInput(Case):

    def test_a_task_file_with_a_fault_is_refused_before_anything_starts(self):
        for what, (text, code, words) in BAD_TASKS.items():
            with self.subTest(what):
                self.assertFalse(self.data.exists(), "a data folder was made")
                (self.folder / "task.yaml").write_text(text)
                ended = self.cli.call("run", self.folder / "task.yaml", json_output=False)
                self.assert_error(ended, code, BAD_FILE, *words)
                self.assertEqual(ended.output, "")
                self.assertFalse(self.data.exists(), "a data folder was made")

    def test_parameters_that_the_task_does_not_declare_are_named(self):
        ended = self.cli.call("run", places.EXAMPLE / "task.yaml", "--param", "variannt=total", json_output=False)
        self.assert_error(ended, 1401, BAD_FILE, "variannt")
        self.assertFalse(self.data.exists(), "a data folder was made")

    def test_an_input_tree_that_is_missing_is_named_and_no_run_begins(self):
        (self.folder / "task.yaml").write_text(TASK + "inputs:\n  - {path: nowhere, to: project}\n")
        ended = self.cli.call("run", self.folder / "task.yaml", json_output=False)
        self.assert_error(ended, 1402, BAD_FILE, "task.yaml", 'input "nowhere"', str(self.folder / "nowhere"))
        self.assertFalse(self.data.exists(), "a data folder was made")

    def test_a_configuration_with_a_fault_is_named_with_its_line(self):
        for what, (text, words) in BAD_CONFIGURATIONS.items():
            with self.subTest(what):
                server = self.server(config=text, start=False)
                report = server.start()
                self.assertTrue(report.startswith("error 1400 "), report)
                self.assertEqual(server.wait(), BAD_FILE)
                for word in words:
                    self.assertIn(word, server.log_text())
                self.assertFalse((self.data / "journal" / "CURRENT").exists(), "a journal was made")

    def test_a_variable_that_the_operator_does_not_allow_is_named_with_the_remedy(self):
        (self.folder / "task.yaml").write_text(f"""name: probe
template: {places.TEMPLATE}
plan:
  - name: only
    exec: {{argv: [sh, -c, 'test "$CI" = yes'], env: {{CI: "yes"}}}}
""")
        server = self.server()
        refused = self.cli.call("run", self.folder / "task.yaml", json_output=False)
        self.assertEqual(refused.status, RUN_FAILED, refused)
        self.assertIn("variable CI", refused.output)
        self.assertIn(f"sandbox.templates.{places.TEMPLATE}.env_allow", refused.output)
        self.assertNotIn("artifact list", refused.output)
        server.stop()
        self.server(config=f"sandbox: {{templates: {{{places.TEMPLATE}: {{env_allow: [CI]}}}}}}\n")
        self.cli.must("run", self.folder / "task.yaml", json_output=False)

    def test_an_error_as_json_has_number_name_and_message(self):
        ended = self.cli.call("list")
        self.assertEqual(ended.status, UNREACHABLE)
        self.assertEqual((ended.value["error"], ended.value["name"]), (1404, "engine_unreachable"))
        self.assertIn(f"sandglass --data {self.data} serve", ended.value["message"])
        self.assertIn("there is no data folder", ended.value["message"])

    def test_a_file_in_the_place_of_the_data_folder_is_called_a_file(self):
        self.data.write_text("a letter")
        for arguments in (["list"], ["start", "hello"], ["doctor"], ["audit", "verify"], ["serve"]):
            with self.subTest(arguments):
                self.assert_error(self.cli.call(*arguments), 1007, MACHINE, f"{self.data} is not a folder", "--data")
        report = self.server(start=False).start()
        self.assertTrue(report.startswith(f"error 1007 {self.data} is not a folder"), report)
        self.assertEqual(self.data.read_text(), "a letter")

    def test_an_artifact_is_never_written_where_json_is_expected(self):
        ended = self.cli.call("artifact", "get", "run-" + "0" * 32, "name")
        self.assert_error(ended, 1405, USAGE, "-o FILE")

    def test_a_run_is_named_by_the_beginning_of_its_id_if_no_other_begins_so(self):
        self.server()
        one, other = "run-abcd1" + "0" * 27, "run-abcd2" + "0" * 27
        for run in (one, other):
            self.cli.must("start", "hello", "--run-id", run, "--input", '{"name": "x", "count": 1}', "--wait")
        for text in ("run-abcd1", "abcd1", one[4:], one):
            self.assertEqual(self.cli.must("show", text).value["summary"]["run_id"], one)
        for command in ("watch", "show", "artifact list", "debug --all"):
            with self.subTest(command):
                self.assertEqual(self.cli.call(*command.split(), "abcd2", json_output=False).status, 0)
                self.assert_error(self.cli.call(*command.split(), "abcd", json_output=False), 1405, USAGE, one, other, "more of its digits")
                self.assert_error(self.cli.call(*command.split(), "abcd3", json_output=False), 1002, NOT_FOUND, "run-abcd3", "sandglass list")
                for text in ("abc", "run-abc", "abcx1", "run-", one + "0", "sandbox-" + one[4:]):
                    if command == "debug --all" and text.startswith("sandbox-"):
                        continue  # a stream that is not a run
                    self.assert_error(self.cli.call(*command.split(), text, json_output=False), 1405, USAGE, "run-<32 hex digits>")
        for command in ("cancel", "terminate", "resume"):
            self.assert_error(self.cli.call(command, "abcd", json_output=False), 1405, USAGE, one, other)

    def test_a_wrong_or_missing_token_says_which_and_what_to_do(self):
        self.server()
        wrong = self.cli.call("list", environment={"SANDGLASS_TOKEN": "sgt_" + "0" * 64}, json_output=False)
        self.assert_error(wrong, 1300, DENIED, "the token is not valid here", "--as NAME")
        (self.data / "tokens" / "operator").unlink()
        missing = self.cli.call("list", json_output=False)
        self.assert_error(missing, 1300, DENIED, str(self.data / "tokens" / "operator"), "--as NAME")
        cut = self.data / "tokens" / "approver"
        cut.write_text(cut.read_text()[:10])
        self.assert_error(self.cli.call("approvals", json_output=False), 1300, DENIED)
        self.assertEqual(self.cli.call("list", as_name="auditor").status, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
