"""Ten thousand files (a thousand in the short form), binary ones among them, up through the API, into a sandbox, out again:
byte for byte."""

import hashlib
import os
import random
import subprocess
import unittest

from harness import places
from harness.case import Case

FILES = 10_000 if places.LONG else 1_000

TASK = """
name: large-tree
template: {template}
inputs: [{{path: tree, to: tree}}]
outputs: [sums.txt, tree.tar]
plan:
  - name: sums
    exec: {{argv: [sh, -c, 'find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum > ../sums.txt'], cwd: tree}}
  - name: keep-sums
    artifact: {{name: sums.txt, file: sums.txt}}
  - name: pack
    exec: {{argv: [tar, -cf, tree.tar, tree]}}
  - name: keep-tree
    artifact: {{name: tree.tar, file: tree.tar}}
"""


def make_tree(root):
    """Many small files, some empty, executable, binary, of odd names; a few larger ones; links; an empty folder."""
    chance = random.Random(7)
    for number in range(FILES - 5):
        folder = root / f"d{number % 97}" / f"e{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        size = chance.choice((0, 1, 100, 1000, 3000, 9000))
        path = folder / f"f{number}.bin"
        path.write_bytes(chance.randbytes(size))
        if number % 50 == 0:
            path.chmod(0o755)
    (root / "a name with blanks, ünïcode and 'quotes'").write_bytes(bytes(range(256)))
    (root / "-rf").write_bytes(b"\0\r\n\x1b[31m\xff\xfe")
    (root / "large.bin").write_bytes(chance.randbytes(5 << 20))
    (root / "zeros.bin").write_bytes(bytes(1 << 20))
    (root / "line\nbreak").write_bytes(b"x")
    (root / "empty").mkdir()
    (root / "link").symlink_to("large.bin")


def described(root):
    """Path → what it is, for everything below."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder",)
        else:
            executable = bool(path.stat().st_mode & 0o100)
            found[name] = ("file", executable, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


class LargeTree(Case):

    def test_many_files_and_binary_ones_come_back_byte_for_byte(self):
        tree = self.folder / "tree"
        tree.mkdir()
        make_tree(tree)
        sent = described(tree)
        self.assertEqual(sum(1 for each in sent.values() if each[0] == "file"), FILES)
        task = self.folder / "task.yaml"
        task.write_text(TASK.format(template=places.TEMPLATE))
        self.server()
        run = self.cli.must("run", task).values[0]["run_id"]

        sums = self.folder / "sums.txt"
        self.cli.must("artifact", "get", run, "sums.txt", "-o", sums)
        lines = [line for line in sums.read_text().splitlines() if not line.startswith("\\")]
        inside = {line[66:].removeprefix("./"): line[:64] for line in lines}
        for name, kind in sent.items():
            if kind[0] == "file" and "\n" not in name:
                self.assertEqual(inside.get(name), kind[2], name)

        packed = self.folder / "tree.tar"
        self.cli.must("artifact", "get", run, "tree.tar", "-o", packed)
        back = self.folder / "back"
        back.mkdir()
        subprocess.run(["tar", "-xf", packed, "-C", back], check=True)
        self.assertEqual(described(back / "tree"), sent)
        self.assert_no_error_was_logged()


if __name__ == "__main__":
    unittest.main(verbosity=2)
