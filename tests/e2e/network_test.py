"""What a task's sandbox may reach, from the task file to the wire: the operator decides, the task only narrows."""

import unittest

from harness import places
from harness.case import Case

RUN_FAILED = 20

TASK = """
name: reach
template: {template}
network: {network}
plan:
  - name: get
    exec: {{argv: [curl, -s, -m, "20", -w, " %{{http_code}}", "http://{host}:{port}/count"]}}
    allow_failure: true
  - name: keep
    artifact: {{name: answer.txt, text: "${{get.out}}"}}
"""


class Network(Case):

    def setUp(self):
        super().setUp()
        self.outside = self.receiver()
        self.port = self.outside.port

    def operator(self, allow=True, internal=True):
        """A server whose operator lists receiver.test and, if wanted, lets tasks and anybody go there."""
        lines = "network:\n  hosts: [{name: receiver.test, addresses: [127.0.0.1]}]\n"
        if allow:
            lines += f"  allow: [{{host: receiver.test, ports: [{self.port}]}}]\n"
        if internal:
            lines += f"  internal: [{{host: receiver.test, ports: [{self.port}], ranges: [127.0.0.1/32]}}]\n"
        return self.server(config=lines)

    def run_task(self, network, host="receiver.test", template=places.NETWORK, status=0):
        path = self.folder / "task.yaml"
        path.write_text(TASK.format(template=template, network=network, host=host, port=self.port))
        ended = self.cli.call("run", path)
        self.assertEqual(ended.status, status, str(ended))
        return ended.values[0]["run_id"]

    def answer(self, run_id):
        path = self.folder / "answer.txt"
        self.cli.must("artifact", "get", run_id, "answer.txt", "-o", path)
        return path.read_text()

    def listed(self):
        return f"[{{host: receiver.test, ports: [{self.port}]}}]"

    def test_what_operator_and_task_both_name_is_reached_and_logged(self):
        server = self.operator()
        self.assertTrue(self.answer(self.run_task(self.listed())).endswith("200"))
        verdicts = [line for line in server.log_text().splitlines() if "network_verdict" in line]
        self.assertEqual(len(verdicts), 1, verdicts)
        for word in ("receiver.test", "127.0.0.1", "internal", "allowed"):
            self.assertIn(word, verdicts[0])
        self.assert_no_error_was_logged()

    def test_what_the_task_does_not_name_stays_closed(self):
        server = self.operator()
        self.assertTrue(self.answer(self.run_task("[]")).endswith("403"))
        other = self.run_task(self.listed(), host="127.0.0.1")
        self.assertTrue(self.answer(other).endswith("403"))
        self.assertIn("default-deny", server.log_text())
        self.assertEqual(self.outside.counts()["refused"], 0)

    def test_what_the_operator_does_not_allow_fails_the_run_before_it_does_anything(self):
        self.operator(allow=False)
        for network in (self.listed(), "[{host: 127.0.0.1}]", "[{host: '*.example.com'}]"):
            with self.subTest(network):
                run = self.run_task(network, status=RUN_FAILED)
                detail = self.cli.must("show", run).value
                self.assertEqual(detail["error_code"], 1802, detail)
                self.assertIn("network.allow", detail["error"])

    def test_a_task_cannot_grant_itself_an_internal_target(self):  # N3, V14
        self.operator(internal=False)
        answer = self.answer(self.run_task(self.listed()))
        self.assertTrue(answer.endswith("403"), answer)
        self.assertIn("special-range:loopback", answer)

    def test_a_template_without_a_network_says_so(self):
        self.operator()
        run = self.run_task(self.listed(), template=places.TEMPLATE, status=RUN_FAILED)
        self.assertIn("template", self.cli.must("show", run).value["error"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
