#!/usr/bin/env python3
"""Structure rules that no compiler checks: include arrows, purity, lengths, banned calls, format.

Prints one line a finding ("file:line: rule: what to do") and exits 1 if there is one.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = ("engine", "activities", "sandbox-runtime", "replay-tools")
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80

# Pure parts: no clock, randomness, thread, log call, protobuf, I/O, unordered iteration (DESIGN 7).
PURE = ("engine/core", "engine/run", "engine/identity", "engine/refusals", "sandbox-runtime/scheduler", "activities/approvals",
        "replay-tools/debugger")
BANNED_INCLUDES = re.compile(
    r'#include\s+[<"](thread|mutex|shared_mutex|condition_variable|atomic|future|chrono|random|iostream|fstream|cstdio|'
    r'filesystem|ctime|unordered_map|unordered_set|unistd\.h|sys/.*|fcntl\.h|time\.h|spdlog/.*|google/protobuf/.*|'
    r'.*\.pb\.h|engine/base/log\.h|engine/base/system_ports\.h)[>"]')
BANNED_WORDS = re.compile(r"\b(std::rand|rand|srand|getenv|time|clock_gettime|gettimeofday|printf|usleep|sleep)\s*\(")
# Everywhere in the product: calls that hide failures, lose data or block without an end.
BANNED_EVERYWHERE = re.compile(r"\b(strcpy|strcat|sprintf|gets|tmpnam|system|popen|sleep_for|usleep)\s*\(")


def load_arrows():
    direct = {}
    for line in (ROOT / "tests/tidy/arrows.txt").read_text().splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            left, right = line.split(":", 1)
            direct[left.strip()] = right.split()

    def reach(folder, seen):
        for target in direct.get(folder, []):
            if target not in seen:
                seen.add(target)
                reach(target, seen)
        return seen

    return {folder: reach(folder, {folder}) for folder in direct}


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h") and path.is_file():
                yield path, path.relative_to(ROOT).as_posix()


def unit_of(folder, arrows):
    """The folder that the arrows know: itself, or the nearest one above that it is a mere part of."""
    while folder and folder not in arrows:
        folder = folder.rpartition("/")[0]
    return folder


def check_arrows(findings):
    arrows = load_arrows()
    include = re.compile(r'^\s*#include "([^"]+)"')
    for path, name in sources(*PRODUCT):
        if name.startswith("engine/server/") or name.endswith("_main.cc"):
            continue
        folder = unit_of(name.rpartition("/")[0], arrows)
        if not folder:
            findings.append(f"{name}:1: arrows: its folder is not in tests/tidy/arrows.txt")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = include.match(line)
            if not match:
                continue
            target = match.group(1).rpartition("/")[0]
            target = "schemas" if target.startswith("schemas/") else unit_of(target, arrows)
            if target not in arrows[folder]:
                findings.append(f"{name}:{number}: arrows: {folder} may not include {match.group(1)}")


def is_pure(name):
    folder = name.rsplit("/", 1)[0]
    return any(folder == pure or folder.startswith(pure + "/") and not folder.endswith(("/codec", "/view", "/service"))
               for pure in PURE)


def check_words(findings):
    for path, name in sources(*PRODUCT):
        pure = is_pure(name)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//", 1)[0]
            if pure and (BANNED_INCLUDES.search(code) or BANNED_WORDS.search(code)):
                findings.append(f"{name}:{number}: purity: {code.strip()} has no place in a pure part")
            if BANNED_EVERYWHERE.search(code):
                findings.append(f"{name}:{number}: banned: {code.strip()}")


def check_lengths(findings):
    starts = re.compile(r"^(\s*)(?!(?:namespace|class|struct|enum|union|switch|if|for|while|else|do|case|extern|return|try|catch)\b)[^\s#/{}].*\)?.*\{$")
    for path, name in sources(*PRODUCT, "tests", "bench"):
        lines = path.read_text().splitlines()
        if len(lines) > MAX_FILE_LINES:
            findings.append(f"{name}:1: length: {len(lines)} lines, at most {MAX_FILE_LINES}: split it")
        number = 0
        while number < len(lines):
            match = starts.match(lines[number])
            # Function bodies of our format start at the depth of a namespace or class member, never deeper than 2.
            if match and len(match.group(1)) <= 2 and "(" in lines[number] + lines[max(0, number - 1)]:
                end = match.group(1) + "}"
                last = next((i for i in range(number + 1, len(lines)) if lines[i].startswith(end)), number)
                if last - number > MAX_FUNCTION_LINES:
                    findings.append(f"{name}:{number + 1}: length: function of {last - number} lines, at most {MAX_FUNCTION_LINES}")
                number = last
            number += 1


def check_headers(findings):
    for path, name in sources(*PRODUCT):
        text = path.read_text()
        if path.suffix == ".h":
            if "#pragma once" not in text:
                findings.append(f"{name}:1: header: no #pragma once")
            continue
        own = path.with_suffix(".h")
        if own.exists():
            first = re.search(r'^#include\s+(\S+)', text, re.M)
            if not first or first.group(1) != f'"{own.relative_to(ROOT).as_posix()}"':
                findings.append(f"{name}:1: header: its own header must be the first include, so that it compiles alone")


def check_code_pages(findings):
    for match in re.finditer(r"SG_CODE\((\w+), (\d+),", (ROOT / "engine/base/codes.def").read_text()):
        code, number = match.groups()
        page = ROOT / f"docs/errors/{number}.md"
        if number != "0" and (not page.exists() or code not in page.read_text()):
            findings.append(f"docs/errors/{number}.md: errors: a page for {code} is missing or does not name it")


def check_format(findings):
    tool = shutil.which("clang-format-19")
    if not tool:
        findings.append("clang-format-19: format: not installed; run scripts/setup --tests")
        return
    files = [str(path) for path, _ in sources(*PRODUCT, "tests", "bench")]
    for start in range(0, len(files), 100):
        run = subprocess.run([tool, "--dry-run", *files[start:start + 100]], capture_output=True, text=True, check=False)
        seen = set()
        for line in run.stderr.splitlines():
            match = re.match(r"^(\S+?):(\d+):\d+: warning: code should be clang-formatted", line)
            if match and match.group(1) not in seen:
                seen.add(match.group(1))
                findings.append(f"{pathlib.Path(match.group(1)).relative_to(ROOT)}:{match.group(2)}: format: run clang-format-19 -i on it")


def main():
    findings = []
    for check in (check_arrows, check_words, check_lengths, check_headers, check_code_pages, check_format):
        check(findings)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
