"""The outside service of the example: a process that knows nothing of Sandglass and counts what really happened."""

import json
import pathlib
import subprocess
import sys
import urllib.request

from harness import places
from harness.waiting import wait_until


class Receiver:
    """Runs from construction to stop()."""

    def __init__(self, folder, *options):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        port_file = folder / "port"
        port_file.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, str(places.EXAMPLE / "receiver"), "--dir", str(folder), "--port-file", str(port_file),
             *[str(each) for each in options]],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        wait_until(port_file.exists, "the receiver's port")
        self.port = int(port_file.read_text())
        self.url = f"http://127.0.0.1:{self.port}"

    def _get(self, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, timeout=30) as answer:
            return json.load(answer)

    def counts(self):
        """{"effects": n, "requests": {"POST": n, "GET": n}, "refused": n}; asking is not counted."""
        return self._get("/count")

    def effects(self):
        return self.counts()["effects"]

    def pulls(self):
        """What was stored: number, key, body as text."""
        return self._get("/pulls")["pulls"]

    def configuration(self):
        """The lines by which an operator allows it."""
        return ("network:\n  internal:\n"
                f"    - {{host: 127.0.0.1, ports: [{self.port}], ranges: [127.0.0.1/32]}}\n")

    def stop(self):
        self.process.kill()
        self.process.wait()
