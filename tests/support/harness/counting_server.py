"""An outside service that misbehaves as real ones do, and counts: its own log is the judge of how many effects there were.

  POST /resend/ID   a receiver that keeps idempotency keys and applies each once
  POST /probe/ID    one that does not, but can be asked: GET /probe/by-key/KEY, 2 s late
  POST /ask/ID      one that does not and cannot be asked
ID is what the caller means by one effect, whatever keys it uses. How a request is treated is drawn from the seed, the ID
and its count: acted on at once or late; the answer is given, dropped after acting, or a 500 after acting. Without a seed
it behaves well. A thread of the test: nobody kills it.
"""

import hashlib
import http.server
import json
import socket
import threading
import time

VISIBLE_AFTER_SECONDS = 2.0
LONGEST_DELAY_SECONDS = 0.6


class CountingServer:
    """Runs from construction to stop()."""

    def __init__(self, seed=None):
        self.seed = seed
        self.held = {}  # (kind, ID) → an event for which its requests wait before they are acted on
        self.lock = threading.Lock()
        self.requests = {}  # (kind, ID) → how often it came
        self.applied = {}   # (kind, ID) → how often it was applied
        self.keys = {}      # (kind, key) → (time of the effect, body)
        self.conflicts = 0
        self.at_work = {}   # (kind, ID) → requests that may still be applied
        self.keys_of = {}   # (kind, ID) → the keys that it came with
        self.lost = set()   # (kind, ID, count) of requests that will not be acted on
        self.ways = {}      # how requests were treated → how often
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.counting = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def configuration(self):
        """The lines by which an operator allows it."""
        return ("network:\n  internal:\n"
                f"    - {{host: 127.0.0.1, ports: [{self._server.server_address[1]}], ranges: [127.0.0.1/32]}}\n")

    def count(self, kind, name):
        with self.lock:
            return self.applied.get((kind, name), 0)

    def forget_held(self, kind, name):
        """Requests that are held now will not be acted on: they came to a service that dies."""
        with self.lock:
            self.lost.add((kind, name, self.requests[kind, name]))

    def seen_keys(self, kind, name):
        with self.lock:
            return set(self.keys_of.get((kind, name), ()))

    def is_quiet(self, kind, name):
        """Nothing that has come can still be applied."""
        with self.lock:
            return self.at_work.get((kind, name), 0) == 0

    def way(self, kind, name, key):
        """(count of the request, seconds before acting, what happens after it)."""
        with self.lock:
            self.keys_of.setdefault((kind, name), set()).add(key)
            count = self.requests[kind, name] = self.requests.get((kind, name), 0) + 1
            self.at_work[kind, name] = self.at_work.get((kind, name), 0) + 1
        if self.seed is None:
            return count, 0.0, "answer"
        drawn = hashlib.sha256(f"{self.seed}/{kind}/{name}/{count}".encode()).digest()
        delay = LONGEST_DELAY_SECONDS * drawn[1] / 255 if drawn[0] % 2 else 0.0
        after = ("answer", "answer", "answer", "answer", "drop", "error")[drawn[2] % 6]
        with self.lock:
            told = ("late, " if delay else "") + after
            self.ways[told] = self.ways.get(told, 0) + 1
        return count, delay, after

    def apply(self, kind, name, key, body):
        """The status of the answer."""
        with self.lock:
            known = self.keys.get((kind, key)) if kind == "resend" else None
            if known:
                self.conflicts += known[1] != body
                return 200 if known[1] == body else 409
            self.applied[kind, name] = self.applied.get((kind, name), 0) + 1
            self.keys[kind, key] = (time.monotonic(), body)
            return 201

    def left(self, kind, name):
        with self.lock:
            self.at_work[kind, name] -= 1

    def shows(self, key):
        with self.lock:
            found = self.keys.get(("probe", key))
            return found is not None and time.monotonic() - found[0] >= VISIBLE_AFTER_SECONDS


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # a client that has been killed


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass

    def reply(self, status):
        body = json.dumps({"status": status}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):  # pylint: disable=invalid-name
        counting = self.server.counting
        _, kind, name = self.path.split("/")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) != int(self.headers["Content-Length"]):
            return  # cut in the middle: nobody acts on half a request
        count, delay, after = counting.way(kind, name, self.headers["Idempotency-Key"])
        try:
            time.sleep(delay)
            if (kind, name) in counting.held:
                counting.held[kind, name].wait(60)
            if (kind, name, count) in counting.lost:
                self.close_connection = True
                return
            status = counting.apply(kind, name, self.headers["Idempotency-Key"], body)
        finally:
            counting.left(kind, name)
        if after == "drop":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.reply(500 if after == "error" and status == 201 else status)

    def do_GET(self):  # pylint: disable=invalid-name
        self.reply(200 if self.server.counting.shows(self.path.rsplit("/", 1)[1]) else 404)
