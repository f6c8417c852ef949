"""Runs Google Benchmark programs and prints one JSON line a figure. See scripts/bench."""

import json
import os
import platform
import subprocess
import sys


def machine():
    cpu = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} x {cpu}, Linux {platform.release()}"


# Keys that Google Benchmark itself writes; every other number of an entry is a counter of ours.
OWN_KEYS = {
    "family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations",
    "real_time", "cpu_time",
}


def figures(entry):
    """Yields (name, value, unit, ratio, ratio_to). A counter `x_per_y` next to `x` is its ratio to y."""
    name = entry["name"]
    counters = {k: v for k, v in entry.items() if isinstance(v, (int, float)) and k not in OWN_KEYS}
    yield name, entry["real_time"], entry["time_unit"], None, None
    for key, value in counters.items():
        if key.startswith("ratio_to_"):
            yield f"{name}/{key}", value, "ratio", value, key.removeprefix("ratio_to_")
        else:
            unit = key.rsplit("_", 1)[1] if key.endswith(("_us", "_ms", "_ns", "_bytes")) else "count"
            yield f"{name}/{key}", value, unit, None, None


def main():
    folder, wanted = sys.argv[1], sys.argv[2:]
    programs = sorted(p for p in os.listdir(folder) if p.startswith("bench_"))
    chosen = [p for p in programs if not wanted or any(w in p for w in wanted)]
    if not chosen:
        sys.exit(f"bench: no bench matches {' '.join(wanted)}; there are: {', '.join(programs)}")
    here = machine()
    for program in chosen:
        run = subprocess.run([os.path.join(folder, program), "--benchmark_format=json"], stdout=subprocess.PIPE, check=True)
        for entry in json.loads(run.stdout)["benchmarks"]:
            if entry.get("run_type") == "aggregate":
                continue
            if entry.get("error_occurred"):
                sys.exit(f"bench: {entry['name']}: {entry.get('error_message')}")
            for name, value, unit, ratio, ratio_to in figures(entry):
                print(json.dumps({"name": f"{program.removeprefix('bench_')}/{name}", "value": value, "unit": unit,
                                  "ratio": ratio, "ratio_to": ratio_to, "settings": entry.get("label", ""),
                                  "machine": here}), flush=True)


if __name__ == "__main__":
    main()
