"""scripts/quickstart --kafka, with the programs of this build: the whole main job on a broker that it starts and stops."""

import os
import pathlib
import subprocess
import unittest

from harness import places, processes
from harness.case import Case


class Quickstart(Case):

    def test_the_main_job_on_a_broker_that_is_gone_afterwards(self):
        home = self.folder / "quickstart"
        with open(self.folder / "output", "w+", encoding="utf-8") as output:
            ended = subprocess.run([places.SOURCE / "scripts/quickstart", "--kafka"], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, check=False, timeout=200,
                                   env={**os.environ, "SANDGLASS_BUILD": str(places.BUILD), "SANDGLASS_QUICKSTART": str(home)})
            output.seek(0)
            said = output.read()
        self.assertEqual(ended.returncode, 0, said)
        self.assertIn("the receiver's own count of effects: 1", said)
        self.assertRegex(said, r"from the topic alone: [1-9]\d* records verified")
        self.assertTrue((home / "artifacts/fix.diff").stat().st_size > 0, said)
        left = [pid for pid in processes.all_pids()
                if any(str(home) in word for word in processes.command_line_of(pid)) and processes.is_alive(pid)]
        self.assertEqual(left, [], [processes.command_line_of(pid) for pid in left])
        self.assertFalse((home / "brokers").exists())
        # What the folder keeps can be read without the broker.
        read = subprocess.run([places.program("sandglass"), "--data", str(home / "data-on-kafka"), "audit", "verify"],
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(read.returncode, 0, read.stdout + read.stderr)

    def test_a_word_that_it_does_not_know_is_refused_before_anything_is_done(self):
        ended = subprocess.run([places.SOURCE / "scripts/quickstart", "--kafak"], capture_output=True, text=True,
                               check=False, timeout=60, env={**os.environ, "SANDGLASS_QUICKSTART": str(self.folder / "none")})
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("usage: scripts/quickstart [--kafka]", ended.stderr)
        self.assertFalse(pathlib.Path(self.folder / "none").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
