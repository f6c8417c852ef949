"""Faults of the machine inside real programs: a wall clock that is set, a disk that is full from its k-th write on.

The other half is tests/support/faults/preload.cc, a library that the programs load.
"""

import errno
import mmap
import pathlib
import struct

from harness import places

# Settings of a server under faults: the engine in a root of its own would see neither the library nor its file.
ONE_VIEW = ["processes.first_uid=0"]
LIBRARY = places.BUILD / "lib" / "libsandglass_faults.so"
FOLDER_BYTES = 512
WALL_OFF_MS, WRITES, FULL_FROM, REFUSED, ERROR, FOLDER = 0, 8, 16, 24, 32, 40


class Faults:
    """Give environment() to a server; what is set here is seen by its processes at once."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "faults"
        self.path.write_bytes(bytes(FOLDER + FOLDER_BYTES))
        with open(self.path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), FOLDER + FOLDER_BYTES)

    def environment(self):
        assert LIBRARY.exists(), f"{LIBRARY} is not built"
        return {"LD_PRELOAD": str(LIBRARY), "SANDGLASS_FAULTS": str(self.path)}

    def _get(self, at):
        return struct.unpack_from("<q", self._map, at)[0]

    def _set(self, at, value):
        struct.pack_into("<q", self._map, at, value)

    def set_clock(self, off_seconds):
        """The machine's wall clock is set, to this much off the true time."""
        self._set(WALL_OFF_MS, off_seconds * 1000)

    def watch_writes(self, folder):
        """From now on writes below this folder are counted."""
        name = str(folder).encode()
        assert len(name) < FOLDER_BYTES
        self._map[FOLDER:FOLDER + FOLDER_BYTES] = name.ljust(FOLDER_BYTES, b"\0")
        self._set(WRITES, 0)
        self._set(REFUSED, 0)

    def full_from(self, write, error=errno.ENOSPC):
        """From this write on they fail, as on a disk without space unless told otherwise; 0: they do not."""
        self._set(ERROR, error)
        self._set(FULL_FROM, write)

    @property
    def writes(self):
        return self._get(WRITES)

    @property
    def refused(self):
        return self._get(REFUSED)
