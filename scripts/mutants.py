#!/usr/bin/env python3
"""Finds out what the tests would miss: draws single-token changes of the sources, and runs the tests
on each until one fails.

  scripts/mutants.py COUNT SEED TEST...   by `make mutants`; TEST is a program's name or a scenario

A change is drawn from every token of src/ and kernels/ that stands on a line that the CPU build can
execute: a comparison, an operator, a constant. Only tests that execute the line can fail by it, so a
build for coverage says first which these are (gcov); a line that no test executes is not found.
Changes that do not compile are drawn again. Prints one line per change and the share that was found;
works on copies of the checkout in build/mutants, one per core.
"""
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import time

WORK = os.path.abspath("build/mutants")
PLACE = "build/coverage"
MAKE = ["make", "-s", "SETUP=0", "CUDA=0", "CC=" + os.environ.get("CC", "gcc"), f"BUILD={PLACE}", f"PLACE={PLACE}",
        "CFLAGS=-O0 -g --coverage"]
SWAPS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&", "+": "-",
         "-": "+", "*": "/", "/": "*", "+=": "-=", "-=": "+=", "++": "--", "--": "++", "true": "false",
         "false": "true", "!": ""}
# What is not to be changed comes first: comments, text, includes, pointers and arrows.
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+'|^ *#[^\n]*|->|<<=?|>>=?"
                   r"|[-+*/%&|^]=|[=!<>]=|&&|\|\||\+\+|--|[A-Za-z_]\w*|(?:0x)?[\d.]\w*(?:[-+]\d+f?)?|\S", re.S | re.M)


def replacement(tokens, i):
    """What the token becomes, None where it stays."""
    token, before = tokens[i].group(), tokens[i - 1].group() if i else ""
    if re.fullmatch(r"\d+", token):
        return str(int(token) + 1)
    if token in "*-+" and not re.fullmatch(r"[\w)\]]+", before):
        return None  # unary, or a pointer
    if token == "*" and (before in ("const", "void", "char", "float", "int", "double") or before[0].isupper()):
        return None
    return SWAPS.get(token)


def run(tree, test, limit):
    """Exit status of a test, of which anything but 0 is a failure."""
    command = ["tests/support/scenario.sh", test] if test.endswith(".sh") else [f"{PLACE}/{test}"]
    environment = dict(os.environ, TEST_QUICK="1", PROGRAMS=PLACE, OMP_WAIT_POLICY="passive")
    with subprocess.Popen(command, cwd=tree, env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return -9


def build(tree, targets):
    return subprocess.run(MAKE + ["-j2"] + targets, cwd=tree, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def files_ending(tree, ending):
    for folder, _, names in os.walk(f"{tree}/{PLACE}"):
        yield from (os.path.join(folder, name) for name in names if name.endswith(ending))


def executed(tree):
    """{(file, line): whether it ran} since the counts were last removed."""
    lines = {}
    data = sorted(set(files_ending(tree, ".gcda")) | {f[:-4] + "gcda" for f in files_ending(tree, ".gcno")
                                                       if "/src/" in f or "emulator" in f})
    said = subprocess.run(["gcov", "--json-format", "--stdout"] + data, cwd=tree, capture_output=True, text=True, check=False)
    for text in filter(None, said.stdout.split("\n")):
        for file in json.loads(text)["files"]:
            name = os.path.relpath(os.path.join(tree, file["file"]), tree)
            if re.match(r"(src|kernels)/", name):
                for line in file["lines"]:
                    key = (name, line["line_number"])
                    lines[key] = lines.get(key, False) or line["count"] > 0
    return lines


def survey(tree, tests):
    """Lines that can run, the tests that run each, and the seconds that each test takes."""
    runs, seconds = {}, {}
    for test in tests:
        for counts in list(files_ending(tree, ".gcda")):
            os.remove(counts)
        start = time.monotonic()
        if run(tree, test, 600) != 0:
            sys.exit(f"mutants: {test} fails without any change")
        seconds[test] = time.monotonic() - start
        for line, ran in executed(tree).items():
            runs.setdefault(line, [])
            if ran:
                runs[line].append(test)
    return runs, seconds


def draw(tree, lines, seed):
    """Every change on these lines, in a random order: file, line, first and last byte, new token."""
    changes = []
    for name in sorted({name for name, _ in lines}):
        with open(f"{tree}/{name}", encoding="utf-8") as file:
            text = file.read()
        tokens = list(TOKEN.finditer(text))
        for i, token in enumerate(tokens):
            line, new = text.count("\n", 0, token.start()) + 1, replacement(tokens, i)
            if new is not None and (name, line) in lines:
                changes.append((name, line, token.start(), token.end(), new))
    random.Random(seed).shuffle(changes)
    return changes


def judge(job):
    """Makes one change in a tree of this process, and says which test found it; None: it does not compile."""
    (name, line, start, end, new), tests, seconds = job
    tree = f"{WORK}/{multiprocessing.current_process().name.rsplit('-', 1)[-1]}"
    if not os.path.isdir(tree):
        shutil.copytree(f"{WORK}/tree", tree, symlinks=True, copy_function=shutil.copy2)
    path = f"{tree}/{name}"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    said = f"{name}:{line}: {text[start:end]} to {new or 'nothing'}: "
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:start] + new + text[end:])
    try:
        tests = sorted(tests, key=seconds.get)
        programs = [f"{PLACE}/{test}" for test in tests if not test.endswith(".sh")]
        if not build(tree, ["all"] + programs):
            return None
        found = next((test for test in tests if run(tree, test, 30 + 5 * seconds[test]) != 0), None)
        return said + (f"found by {os.path.basename(found)}" if found else "NOT FOUND" + ("" if tests else ": no test runs it"))
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def main():
    count, seed, tests = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    tree = f"{WORK}/tree"
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(tree)
    names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout
    subprocess.run(["xargs", "-0", "cp", "--parents", "-t", tree], input=names, check=True)
    if not build(tree, ["all", "tests"]):
        sys.exit("mutants: the sources do not build")
    runs, seconds = survey(tree, tests)
    changes = iter(draw(tree, set(runs), seed))
    judged = found = 0
    with multiprocessing.Pool(os.cpu_count()) as pool:
        jobs = ((change, runs[change[:2]], seconds) for change in changes)
        for said in pool.imap(judge, (job for job, _ in zip(jobs, range(2 * count)))):
            if said is None or judged == count:
                continue
            judged, found = judged + 1, found + ("found by" in said)
            print(said, flush=True)
            if judged == count:
                pool.terminate()
                break
    print(f"{found} of {judged} changes were found")


if __name__ == "__main__":
    main()
