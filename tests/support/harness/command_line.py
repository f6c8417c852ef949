"""The program `sandglass`, called as a program calls it."""

import dataclasses
import json
import os
import re
import subprocess

from harness import places


@dataclasses.dataclass
class Ended:
    """What a call gave. `values` are the JSON values of the output, a line each."""
    arguments: list
    status: int
    output: str
    errors: str

    @property
    def values(self):
        return [json.loads(line) for line in self.output.splitlines()]

    @property
    def value(self):
        return self.values[0]

    def __str__(self):
        return f"sandglass {' '.join(self.arguments)}: exit code {self.status}\n{self.output}{self.errors}"


class CommandLine:
    """Calls for one data folder."""

    def __init__(self, data, environment=None):
        self.data = str(data)
        self.environment = environment or {}
        self._admission = None  # the stream's id

    def _command(self, arguments, as_name, json_output):
        command = [places.program("sandglass"), "--data", self.data]
        if as_name:
            command += ["--as", as_name]
        if json_output:
            command.append("--json")
        return command + [str(each) for each in arguments]

    def call(self, *arguments, as_name=None, json_output=True, seconds=120, environment=None):
        ended = subprocess.run(self._command(arguments, as_name, json_output), stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=seconds, check=False,
                               env={**os.environ, **self.environment, **(environment or {})})
        return Ended([str(each) for each in arguments], ended.returncode, ended.stdout, ended.stderr)

    def must(self, *arguments, **options):
        ended = self.call(*arguments, **options)
        if ended.status != 0:
            raise AssertionError(str(ended))
        return ended

    def reservations(self):
        """Places of sandboxes that admission counts, as its history says."""
        if self._admission is None:
            log = self.must("audit", "log").output
            found = re.search(r"admission-[0-9a-f]{32}", log)
            self._admission = found.group() if found else None
        state = self.must("debug", self._admission, "--all").values[-1]["state"]
        return sorted({path.split("/")[1] for path in state if path.startswith("reservations/")})

    def begin(self, *arguments, as_name=None, json_output=True):
        """The call as a process under way, for calls that wait."""
        return subprocess.Popen(self._command(arguments, as_name, json_output), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, **self.environment})
