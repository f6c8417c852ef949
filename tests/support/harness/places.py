"""Where programs and sources are."""

import os
import pathlib
import shutil

SOURCE = pathlib.Path(os.environ.get("SANDGLASS_SOURCE", pathlib.Path(__file__).resolve().parents[3]))
BUILD = pathlib.Path(os.environ.get("SANDGLASS_BUILD", SOURCE / "build/dev"))
BIN = BUILD / "bin"
EXAMPLE = SOURCE / "examples/fix-failing-test"
# What this machine can enforce in full: without root there are no control groups.
TEMPLATE = "default" if os.geteuid() == 0 else "default-rootless"
NETWORK = "network" if os.geteuid() == 0 else "network-rootless"
LONG = os.environ.get("SANDGLASS_LONG") == "1"


def task(text):
    """A task file that this machine can do: one that names the template `default` gets TEMPLATE."""
    return text.replace("template: default\n", f"template: {TEMPLATE}\n")


def program(name):
    return str(BIN / name)


def copy_programs(folder):
    """The product's programs in a new folder `folder`: another user may not be able to reach the build."""
    folder.mkdir()
    for name in ("", "d", "-engine", "-effect", "-egress", "-host", "-keeper", "-init"):
        shutil.copy2(BIN / f"sandglass{name}", folder)
    return folder
