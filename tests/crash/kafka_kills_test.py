"""SIGKILL of the engine at random while its journal is on Kafka brokers: as random_kills_test.py does and judges it, and
in the end the topic alone proves the history. SANDGLASS_LONG=1 kills 100 times on one broker and 100 times on three.
"""

import unittest

import random_kills_test
from harness import places
from harness.kafka import Brokers


class KafkaKills(random_kills_test.RandomKills):
    brokers_count = 1
    wanted = 100 if places.LONG else 5
    victims = (("engine",),)
    runs_at_once = random_kills_test.RUNS_AT_ONCE if places.LONG else 4
    test_an_executor_that_outlives_its_engine = None  # is the same whichever journal there is

    def setUp(self):
        super().setUp()
        self.brokers = Brokers(self.folder / "brokers", self.brokers_count)
        self.addCleanup(self.brokers.stop)

    def configuration(self):
        return super().configuration() + self.brokers.configuration()

    def check_the_end(self, server):
        in_flight = super().check_the_end(server)
        local = self.cli.must("audit", "verify").value
        topic = self.cli.must("audit", "verify", "--kafka", self.brokers.bootstrap).value
        self.assertTrue(local["good"] and topic["good"], (local, topic))
        self.assertEqual(topic["heads"], local["heads"])
        self.assertEqual(topic["ignored"], 0, topic)
        return in_flight


@unittest.skipUnless(places.LONG, "minutes: in the long form")
class KafkaKillsOnThree(KafkaKills):
    brokers_count = 3


if __name__ == "__main__":
    unittest.main(verbosity=2)
