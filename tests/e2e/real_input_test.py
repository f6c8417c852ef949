"""Real programs of other people, fetched through this machine's own registries, built and tested in sandboxes.

Which registries: those of npm's and apt's own configuration, asked when the test runs. A machine that reaches none
fails; SANDGLASS_NO_REGISTRY=1 leaves these tests out and says so (exit code 77, "skipped" in ctest).
"""

import ipaddress
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import unittest
import urllib.parse

from harness import places
from harness.case import Case

FLAG = "SANDGLASS_NO_REGISTRY"
HINT = f"; on a machine without a registry set {FLAG}=1 to leave this test out"


def must_have(program, package):
    if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin"):
        raise AssertionError(f"{program} is not below /usr: apt-get install {package}{HINT}")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


class Registry:
    """Where a package client gets its packages, as its own configuration says."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.url = url.rstrip("/")
        self.host = parts.hostname
        self.port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            self.addresses = sorted({each[4][0] for each in found})
            socket.create_connection((self.host, self.port), timeout=10).close()
        except OSError as problem:
            raise AssertionError(f"the registry {self.host}:{self.port} is not reached: {problem}{HINT}") from problem

    def configuration(self):
        """The lines by which an operator lets tasks go there; a mirror in a reserved range is an internal target."""
        lines = f"network:\n  allow:\n    - {{host: {self.host}, ports: [{self.port}]}}\n"
        inside = [each for each in self.addresses if not ipaddress.ip_address(each).is_global]
        if inside:
            ranges = ", ".join(f'"{each}/{ipaddress.ip_address(each).max_prefixlen}"' for each in inside)
            lines += f"  internal:\n    - {{host: {self.host}, ports: [{self.port}], ranges: [{ranges}]}}\n"
        return lines


def apt_mirror():
    """The first mirror of apt's own sources that has bookworm/main."""
    for line in output_of("apt-get", "indextargets", "--format", "$(SITE) $(REPO_URI) $(RELEASE) $(COMPONENT)").splitlines():
        site, uri, release, component = line.split(" ", 3)
        if release == "bookworm" and component == "main" and site.startswith("http"):
            return Registry(uri)
    raise AssertionError(f"apt's sources name no mirror of bookworm main{HINT}")


class RealInput(Case):

    def start_for(self, registry):
        self.registry = registry
        self.server(config=registry.configuration())

    def run_example(self, name, *parameters):
        arguments = ["run", places.SOURCE / "examples" / name / "task.yaml", "--param", f"template={places.NETWORK}"]
        for parameter in parameters:
            arguments += ["--param", parameter]
        ended = self.cli.call(*arguments, seconds=240)
        self.assertEqual(ended.status, 0, str(ended))
        return ended.values[0]["run_id"]

    def artifact(self, run_id, name):
        path = self.folder / name
        self.cli.must("artifact", "get", run_id, name, "-o", path)
        return path.read_bytes()

    def verdicts(self):
        """Every decision of the proxy, from the log."""
        found = []
        for line in self._servers[0].log_text().splitlines():
            at = line.find("network_verdict")
            if at >= 0:
                found.append(line[at:])
        return found

    def assert_went_only_there(self):
        verdicts = self.verdicts()
        self.assertTrue(verdicts, "nothing went through the proxy")
        for verdict in verdicts:
            self.assertIn(self.registry.host, verdict)

    def test_an_npm_package_is_fetched_installed_by_its_lock_file_and_passes_its_own_tests(self):
        must_have("npm", "npm")
        registry = Registry(output_of("npm", "config", "get", "registry").strip())
        self.start_for(registry)
        run = self.run_example("build-npm-package", f"registry={registry.host}", f"port={registry.port}")
        log = self.artifact(run, "npm-test.log").decode()
        self.assertRegex(log, re.compile(r"^# pass +95$", re.M))
        installed = json.loads(self.artifact(run, "installed.json"))
        self.assertEqual(set(installed["dependencies"]),
                         {"array-filter", "array-map", "array-reduce", "jsonify", "tape"})
        self.assert_went_only_there()
        self.assert_no_error_was_logged()

    def test_a_debian_source_package_is_fetched_compiled_and_passes_its_own_tests(self):
        must_have("dpkg-source", "dpkg-dev")
        must_have("make", "make")
        mirror = apt_mirror()
        self.start_for(mirror)
        run = self.run_example("build-debian-source", f"mirror={mirror.url}", f"host={mirror.host}",
                               f"port={mirror.port}")
        self.assertIn("All tests passed", self.artifact(run, "test.log").decode())
        program = self.artifact(run, "figlet")
        self.assertTrue(program.startswith(b"\x7fELF"))
        self.assert_went_only_there()
        self.assert_no_error_was_logged()


if __name__ == "__main__":
    if os.environ.get(FLAG) == "1":
        print(f"left out: {FLAG}=1 says that this machine has no registry")
        sys.exit(77)
    unittest.main(verbosity=2)
