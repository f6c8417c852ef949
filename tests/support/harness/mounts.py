"""Mounts of a test's own: its program runs in a mount namespace that nobody else sees, as the user that started it."""

import ctypes
import os
import sys

RDONLY, REMOUNT, BIND = 1, 32, 4096
_DETACH = 2
_PR_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_APART = "SANDGLASS_TEST_MOUNTS"
_libc = ctypes.CDLL(None, use_errno=True)


def run_apart():
    """Runs the program again in such a namespace, and returns there. A plain user is in a user namespace of its own as
    well, under the same number: this process may mount in it, and what it starts may not."""
    if os.environ.get(_APART) != "1":
        os.environ[_APART] = "1"
        user = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
        os.execvp("unshare", ["unshare", *user, "--mount", sys.executable, *sys.argv])
    _must(_libc.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0), "clearing the ambient capabilities")


def mount(target, source="none", kind="", flags=0, options=""):
    words = [str(each).encode() for each in (source, target, kind)]
    _must(_libc.mount(*words, ctypes.c_ulong(flags), options.encode()), f"mounting {target}")


def unmount(target):
    """Whoever has files open there keeps them."""
    _must(_libc.umount2(str(target).encode(), _DETACH), f"unmounting {target}")


def _must(status, what):
    if status != 0:
        raise OSError(ctypes.get_errno(), what)
