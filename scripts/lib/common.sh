# Sourced by the scripts: where things are, and how progress and failures are told.
set -euo pipefail
SANDGLASS_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$SANDGLASS_SOURCE"
SANDGLASS_LOGS=$SANDGLASS_SOURCE/build/logs
mkdir -p "$SANDGLASS_LOGS"
STARTED=$SECONDS

say() { printf '%s\n' "$*"; }

# stage NAME: one line, with the time since the script began.
stage() { printf '[%3d s] %s\n' "$((SECONDS - STARTED))" "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# logged NAME command…: output goes to build/logs/NAME.log; on failure its last 20 lines are shown.
logged() {
  local log=$SANDGLASS_LOGS/$1.log
  shift
  if ! "$@" >"$log" 2>&1 </dev/null; then
    printf '%s: failed: %s\n--- last 20 lines of %s\n' "$(basename "$0")" "$*" "$log" >&2
    tail -n 20 "$log" >&2
    return 1
  fi
}
