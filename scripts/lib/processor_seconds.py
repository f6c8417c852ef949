"""processor_seconds.py BUILD OBJECT: compiles the source of OBJECT (as the build's compile_commands.json says) once more,
without a compiler cache and to nowhere, and prints the seconds of processor that this took. Unlike the wall time, that
hardly grows on a busy machine."""

import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys


def main():
    build, wanted = pathlib.Path(sys.argv[1]), sys.argv[2]
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if "-o" not in words or words[words.index("-o") + 1] != wanted:
            continue
        words[words.index("-o") + 1] = "/dev/null"
        subprocess.run(words, cwd=entry["directory"], env={**os.environ, "CCACHE_DISABLE": "1"}, check=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{used.ru_utime + used.ru_stime:.1f}")
        return
    sys.exit(f"processor_seconds: {wanted} is not in {build}/compile_commands.json")


main()
