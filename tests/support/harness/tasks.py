"""Task files that several tests run."""

_ASK = """name: ask
goal: ask a person
brain: plan
targets: [{url}]
approvals: {{level_2: ask, expires: 1h}}
plan:
  - name: send
    http_request: {{method: POST, url: "{url}/pulls", body: "{body}", recovery: resend}}
"""


def ask(receiver, body="hello"):
    """Waits for a person, then sends `body` to the receiver. `body` is what stands between YAML's double quotes."""
    return _ASK.format(url=receiver.url, body=body)
