#!/bin/sh
# Runs all tests; one line each: "name: ok" or "name: FAIL (…)". Exit code 1 if one fails.
. "$(dirname "$0")/../shop.sh"
failures=0

check() {  # NAME EXPECTED ACTUAL
  if [ "$2" = "$3" ]; then
    echo "$1: ok"
  else
    echo "$1: FAIL (expected $2, got $3)"
    failures=$((failures + 1))
  fi
}

check total 597 "$(total 199 3)"
check discount 850 "$(discount 1000 15)"
check slug blue-suede-shoes "$(slug 'Blue Suede Shoes')"

echo "$failures failed"
[ "$failures" -eq 0 ]
