#!/usr/bin/env python3
"""Finds mistakes that the tests would miss. Draws random changes of single tokens in the sources. For each
change, runs the tests until one fails.

  scripts/mutants.py COUNT SEED TEST...   by `make mutants`; TEST is a program's name or a scenario

A change replaces one token in src/ or kernels/: a comparison, an operator or a constant. Changes are drawn
from the lines that the CPU build can execute; the emulator executes kernels. A coverage build (gcov) tells
which tests execute a line. Only these tests can find a change in it. Changes that do not compile do not
count. A test that fails without any change is left out. Prints one line per change and the fraction of
changes found. Works on copies of the checkout in build/mutants, one per core.
"""
import glob
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

WORK = os.path.abspath("build/mutants")
FIRST = f"{WORK}/first"  # the tree that is built and then copied
PLACE = "build/coverage"
PROGRAMS = ("mlp-train", "mlp-digits", "mlp-lab", "mlp-bench", "mlp-lab-emulator")
MAKE = ["make", "-s", "-j2", "SETUP=0", "CUDA=0", "GPUS=", f"BUILD={PLACE}", f"PLACE={PLACE}",
        "CFLAGS=-O0 -g --coverage"]
SWAPS = dict(pair.split("→") for pair in "==→!= !=→== <→<= <=→< >→>= >=→> &&→|| ||→&& +→- -→+ *→/ /→* "
             "+=→-= -=→+= ++→-- --→++ true→false false→true !→".split())
# Comments, strings, preprocessor lines and -> are matched first, as whole tokens, and never changed.
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+'|^ *#[^\n]*|->"
                   r"|[-+*/%&|^<>=!]=|&&|\|\||\+\+|--|<<|>>|[A-Za-z_]\w*|\d[\w.]*|\S", re.S | re.M)


def changed(token, before):
    """Returns the token that replaces `token`, or None if it is not changed. `before` is the token before it."""
    # Only after a value are * + - operators, which are changed. After a type, * declares a pointer.
    if token in "*-+" and (not re.fullmatch(r"[\w)\]]+", before) or before[0].isupper() or
                           before in ("const", "void", "char", "float", "int", "double", "return")):
        return None
    return str(int(token) + 1) if token.isdigit() else SWAPS.get(token)


def succeeds(command, **environment):
    """Runs a command without output. Returns True if it succeeds."""
    return subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def passes(test, limit):
    """Returns True if a test passes in this process's tree. gcov's counts of executed lines go to the tree."""
    command = ["tests/support/scenario.sh", test] if test.endswith(".sh") else [f"{PLACE}/{test}"]
    return succeeds(["timeout", "-s", "KILL", str(limit), *command], TEST_QUICK="1", PROGRAMS=PLACE,
                    OMP_WAIT_POLICY="passive", GCOV_PREFIX=os.getcwd(), GCOV_PREFIX_STRIP=str(FIRST.count("/")))


def enter_own_tree():
    """Makes a copy of the first tree the folder of this process."""
    os.chdir(shutil.copytree(FIRST, f"{WORK}/{multiprocessing.current_process().name}", symlinks=True))


def lines_of(ending, least):
    """Returns each (file, line) in the .gcno or .gcda files that was executed at least `least` times."""
    data = [name for name in glob.glob(f"{PLACE}/**/*{ending}", recursive=True) if "/tests/" not in name]
    said = subprocess.run(["gcov", "--json-format", "--stdout", *data], capture_output=True, text=True, check=False).stdout
    return {(file["file"], line["line_number"])
            for text in said.splitlines() if text for file in json.loads(text)["files"]
            if re.match(r"(src|kernels)/", file["file"])
            for line in file["lines"] if line["count"] >= least}


def survey(test):
    """Runs a test. Returns the test, its seconds, and the lines that it executed."""
    for counts in glob.glob(f"{PLACE}/**/*.gcda", recursive=True):
        os.remove(counts)
    start = time.monotonic()
    if not passes(test, 600):
        print(f"{test} fails without any change: left out", flush=True)
        return test, 0, []
    return test, time.monotonic() - start, lines_of(".gcda", 1)


def every_change(lines):
    """Yields (file, line, first character, end, new token) for each token on these lines that can change."""
    for name in sorted({name for name, _ in lines}):
        text, before = pathlib.Path(name).read_text(encoding="utf-8"), ""
        for token in TOKEN.finditer(text):
            new = changed(token.group(), before)
            line = text.count("\n", 0, token.start()) + 1
            if new is not None and (name, line) in lines:
                yield name, line, token.start(), token.end(), new
            before = token.group()


def judge(job):
    """Makes one change in this process's tree. Returns the verdict, or None if the change does not compile."""
    (name, line, start, end, new), tests = job
    path = pathlib.Path(name)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[:start] + new + text[end:], encoding="utf-8")
    try:
        if not succeeds([*MAKE, "all", *(f"{PLACE}/{test}" for _, test in tests if test[-3:] != ".sh")]):
            return None
        found = next((test for seconds, test in tests if not passes(test, 30 + 5 * seconds)), None)
        return (f"{name}:{line}: {text[start:end]} to {new or 'nothing'}: " +
                (f"found by {os.path.basename(found)}" if found else "NOT FOUND"))
    finally:
        path.write_text(text, encoding="utf-8")


def main():
    count, tests, said = int(sys.argv[1]), sys.argv[3:], []
    shutil.rmtree(WORK, ignore_errors=True)
    os.chdir(shutil.copytree(".", FIRST, ignore=shutil.ignore_patterns("build", ".git", ".cuda", "*.csv", *PROGRAMS)))
    if not succeeds([*MAKE, "all", "tests"]):
        sys.exit("mutants: the sources do not build")
    runs = {line: [] for line in lines_of(".gcno", 0)}
    with multiprocessing.Pool(initializer=enter_own_tree) as pool:
        for test, seconds, lines in pool.imap_unordered(survey, tests):
            for line in lines:
                runs.setdefault(line, []).append((seconds, test))
        changes = list(every_change(runs))
        random.Random(int(sys.argv[2])).shuffle(changes)
        # Some changes do not compile, so a quarter more than needed are tried.
        jobs = [(change, sorted(runs[change[:2]])) for change in changes[:count + count // 4]]
        for verdict in filter(None, pool.imap(judge, jobs)):
            if len(said) < count:
                said.append(verdict)
                print(verdict, flush=True)
    print(f"{sum('NOT FOUND' not in verdict for verdict in said)} of {len(said)} changes were found")


if __name__ == "__main__":
    main()
