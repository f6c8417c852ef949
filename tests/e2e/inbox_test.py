"""The inbox of people, from outside: approvals that race, expire and are four-eyes, effects of unknown outcome, other
tenants; and what an auditor finds of refusals."""

import json
import threading
import unittest

from harness.case import Case
from harness.waiting import wait_until

DENIED_BY_ROLE, NOT_FOUND, REFUSED, RUN_FAILED, RUN_NOT_APPROVED = 5, 6, 7, 20, 24

TASK = """name: send
goal: send one request
brain: plan
targets: [{url}]
tools: {{http_request: {{level: {level}, grant: true}}}}
approvals: {{level_2: {asked}, expires: {expires}}}
timeouts: {{task: 10m, step: 30s}}
plan:
  - name: send
    timeout: 5s
    http_request: {{method: POST, url: "{url}/pulls", body: hello, recovery: {recovery}}}
  - name: end
    finish: {{message: "done: ${{send.done}}"}}
"""


class Inbox(Case):

    def setUp(self):
        super().setUp()
        self.outside = self.receiver()
        self.service = self.server(config=self.outside.configuration())

    def token(self, name, *roles, tenant=None):
        """Makes a token; calls with as_name=name use it."""
        arguments = ["token", "create", name]
        for role in roles:
            arguments += ["--role", role]
        if tenant:
            arguments += ["--tenant", tenant]
        made = self.cli.must(*arguments).value
        path = self.data / "tokens" / name
        if not path.exists():
            path.write_text(made["token"] + "\n")

    def send(self, *, outside=None, level=2, asked="ask", expires="1h", recovery="resend", as_name=None):
        text = TASK.format(url=(outside or self.outside).url, level=level, asked=asked, expires=expires, recovery=recovery)
        (self.folder / "task.yaml").write_text(text)
        return self.cli.must("run", self.folder / "task.yaml", "--detach", as_name=as_name).value["run_id"]

    def show(self, run):
        return self.cli.must("show", run).value

    def waiting(self, run):
        def look():
            found = [each for each in self.cli.must("approvals", run).value["approvals"] if each["status"] == "waiting"]
            return found[0] if found else None
        return wait_until(look, lambda: f"something that waits in {json.dumps(self.show(run))}")

    def end(self, run):
        wait_until(lambda: self.show(run)["summary"]["status"] != "running", lambda: json.dumps(self.show(run)))
        return self.show(run)

    # ADV-G9, FR-121
    def test_nobody_deciding_in_time_is_no_denial(self):
        run = self.send(expires="2s")
        approval = self.waiting(run)
        ended = self.end(run)
        self.assertEqual(ended["error_code"], 1804)
        self.assertEqual(ended["approvals"][0]["status"], "expired")
        self.assertEqual(ended["approvals"][0]["verdicts"], [])
        for word in ("approve", "deny"):
            self.assert_error(self.cli.call(word, approval["approval_id"]), 1804, REFUSED, "expired")
        self.assertEqual(self.cli.call("watch", run).status, RUN_NOT_APPROVED)
        self.assertEqual(self.outside.counts()["requests"]["POST"], 0)

    # ADV-G10, FR-108, FR-112
    def test_of_many_who_decide_at_once_one_is_heard_and_the_request_leaves_once(self):
        names = [f"judge-{i}" for i in range(6)]
        for name in names:
            self.token(name, "approver")
        run = self.send()
        approval = self.waiting(run)["approval_id"]
        answers = {}

        def decide(name, word):
            answers[name] = (word, self.cli.call(word, approval, as_name=name))

        threads = [threading.Thread(target=decide, args=(name, "approve" if i % 2 else "deny"))
                   for i, name in enumerate(names)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended = self.end(run)
        decided = ended["approvals"][0]
        self.assertEqual(len(decided["verdicts"]), 1, "two were heard")
        heard = "approve" if decided["status"] == "approved" else "deny"
        for word, answer in answers.values():
            if word == heard:
                self.assertEqual(answer.status, 0, str(answer))  # the same word again changes nothing
            else:
                self.assert_error(answer, 1805, REFUSED, decided["verdicts"][0]["who"])
        self.assertEqual(self.outside.effects(), 1 if heard == "approve" else 0)

    def test_a_denial_is_final(self):
        run = self.send()
        approval = self.waiting(run)["approval_id"]
        self.cli.must("deny", approval)
        self.assert_error(self.cli.call("approve", approval), 1805, REFUSED, "denied by approver")
        self.assertEqual(self.end(run)["error_code"], 1803)
        self.assertEqual(self.outside.counts()["requests"]["POST"], 0)

    # ADV-G10: whoever starts a run does not decide it at level 3, whatever roles the token has.
    def test_at_level_three_the_requester_is_nobody_to_approve(self):
        self.token("both", "operator", "approver")
        run = self.send(level=3, as_name="both")
        approval = self.waiting(run)["approval_id"]
        self.assert_error(self.cli.call("approve", approval, as_name="both"), 1301, DENIED_BY_ROLE, "both")
        self.assertEqual(self.waiting(run)["approval_id"], approval)
        self.cli.must("approve", approval)
        self.assertEqual(self.end(run)["summary"]["status"], "completed")
        self.assertEqual(self.outside.effects(), 1)

    # ADV-G11: the attempts that follow an approval belong to it.
    def test_one_approval_covers_the_attempts_of_its_request_and_asks_no_second_time(self):
        failing = self.receiver("--error-before", 2, folder="failing")
        self.service.stop()
        self.server(config=failing.configuration())
        run = self.send(outside=failing)
        self.cli.must("approve", self.waiting(run)["approval_id"])
        ended = self.end(run)
        self.assertEqual(ended["summary"]["status"], "completed", json.dumps(ended))
        self.assertEqual(len(ended["approvals"]), 1)
        self.assertEqual(failing.effects(), 1)
        self.assertEqual(failing.counts()["requests"]["POST"], 3)

    # O2: nobody but a person can say what became of it, and the person sees it where everything else waits.
    def test_an_effect_of_unknown_outcome_waits_in_the_inbox_for_a_persons_word(self):
        dropping = self.receiver("--drop-reply", 2, folder="dropping")
        self.service.stop()
        service = self.server(config=dropping.configuration())
        run = self.send(outside=dropping, asked="allow", recovery="ask")
        question = self.waiting(run)
        self.assertEqual(question["kind"], "outcome")
        request = question["request"] if isinstance(question["request"], dict) else json.loads(question["request"])
        self.assertIn("unknown", request["reason"])
        self.assertEqual(request["target"], dropping.url)
        self.assertEqual(request["arguments"]["body"], "hello")
        self.assertGreater(request["unknown_since_ms"], 0)
        text = self.cli.must("approvals", json_output=False).output
        for part in ("Unknown outcome", f"sandglass --data {self.data} settle {question['approval_id']}", dropping.url, "arguments digest"):
            self.assertIn(part, text)

        killed = service.kill_child("engine")
        service.wait_for_child("engine", other_than=killed)
        wait_until(lambda: self.cli.call("list").status == 0, "an engine that answers")
        self.assertEqual(self.waiting(run), question, "a restart has changed it")

        approval = question["approval_id"]
        for arguments in (["approve", approval, "--yes"], ["deny", approval, "--yes"]):
            self.assert_error(self.cli.call(*arguments), 1001, REFUSED, "settle")
        self.assert_error(self.cli.call("settle", approval, "perhaps"), 1405, 2)
        self.assert_error(self.cli.call("settle", approval, "done", as_name="operator"), 1301, DENIED_BY_ROLE)
        self.assert_error(self.cli.call("settle", approval, "done", "--digest", "0" * 64), 1806, REFUSED)
        self.assertEqual(dropping.effects(), 1)

        self.cli.must("settle", approval, "again", "--reason", "the service has lost it")
        second = self.waiting(run)
        self.assertNotEqual(second["approval_id"], approval)
        self.assertEqual(dropping.effects(), 2, "it was to be done once more")
        self.cli.must("settle", run, "done", "--result", '{"status": 201}')
        ended = self.end(run)
        self.assertEqual(ended["summary"]["status"], "completed", json.dumps(ended))
        self.assertEqual(dropping.effects(), 2)
        self.assert_error(self.cli.call("settle", second["approval_id"], "not-done"), 1805, REFUSED, "done")
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)

    # ADV-E30, FR-116: what belongs to another tenant is not there.
    def test_another_tenant_finds_nothing_and_decides_nothing(self):
        self.token("stranger", "operator", "approver", tenant="other")
        run = self.send()
        approval = self.waiting(run)["approval_id"]
        nothing = [["show", run], ["watch", run], ["cancel", run], ["terminate", run], ["signal", run, "go"], ["query", run, "plan"],
                   ["update", run, "greet"],
                   ["artifact", "list", run], ["artifact", "get", run, "fix.diff", "-o", self.folder / "fix.diff"], ["debug", run, "--all"],
                   ["approve", approval], ["deny", approval]]
        for arguments in nothing:
            self.assert_error(self.cli.call(*arguments, as_name="stranger"), 1002, NOT_FOUND)
        self.assertEqual(self.cli.must("list", as_name="stranger").value.get("runs", []), [])
        self.assertEqual(self.cli.must("approvals", as_name="stranger").value.get("approvals", []), [])
        self.assertEqual(self.cli.must("approvals", run, as_name="stranger").value.get("approvals", []), [])
        # A token of another tenant is the admins' to make.
        self.assert_error(self.cli.call("token", "create", "x", "--role", "approver", "--tenant", "default",
                                        as_name="stranger"), 1301, DENIED_BY_ROLE)
        self.assertEqual(self.waiting(run)["approval_id"], approval)
        self.cli.must("deny", approval)
        self.end(run)

        # J20: the auditor sees who tried what.
        noted = [each for each in self.cli.must("audit", "refusals").values if each["token"] == "stranger"]
        self.assertIn(("other", "cancel a run", run, 1002),
                      [(each["tenant"], each["call"], each["target"], each["code"]) for each in noted])
        self.assertIn(("show a run", run), [(each["call"], each["target"]) for each in noted])
        self.assertIn("create a token", [each["call"] for each in noted])
        self.assertTrue(all(each["request_id"] for each in noted if each["call"] == "cancel a run"))
        self.assertTrue(all(each["message"] and each["time_ms"] for each in noted))

    # J20: what anybody can cause is counted, and no history grows by it.
    def test_strangers_and_noise_are_counted_and_grow_no_history(self):
        def records():
            return sum(head["sequence"] for head in self.cli.must("audit", "verify").value["heads"])
        before = records()
        for _ in range(30):
            self.assertEqual(self.cli.call("list", environment={"SANDGLASS_TOKEN": "sgt_" + "0" * 64}).status, 5)
            self.assertEqual(self.cli.call("start", "hello", "--input", "[").status, REFUSED)
        self.assertEqual(records(), before)
        for _ in range(40):
            self.assertEqual(self.cli.call("cancel", "run-" + "0" * 32).status, NOT_FOUND)
        self.assertLessEqual(records() - before, 25, "one token's refusals have no bound")
        refused = self.cli.must("doctor").value["refused"]
        self.assertGreaterEqual(refused["unauthenticated"], 30)  # a command may make several calls
        self.assertEqual(refused["malformed"], 30)
        self.assertEqual(refused["refused"], 40)
        self.assertEqual(refused["recorded"] + refused["dropped"], refused["refused"] + refused["denied"])
        self.assertIn("refused calls", self.cli.must("doctor", json_output=False).output)
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
