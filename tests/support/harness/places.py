"""Where programs and sources are."""

import os
import pathlib

SOURCE = pathlib.Path(os.environ.get("SANDGLASS_SOURCE", pathlib.Path(__file__).resolve().parents[3]))
BUILD = pathlib.Path(os.environ.get("SANDGLASS_BUILD", SOURCE / "build/dev"))
BIN = BUILD / "bin"
EXAMPLE = SOURCE / "examples/fix-failing-test"
LONG = os.environ.get("SANDGLASS_LONG") == "1"


def program(name):
    return str(BIN / name)
