#!/usr/bin/env python3
"""Prints a table of hardware counters. They are read while each rung of a topic of the lab runs once.

    scripts/profile.py TOPIC [RUNG...]    by `make profile`

Each rung runs in its own process. In it, Nsight Compute (ncu) reads the counter that the topic is about, the
bytes that the memory moved, the time, and the reasons why warps waited. ncu is looked for in PATH and beside
the compiler that NVCC names. Its reports, for ncu-ui, go to build/profiles. The table has one line per
kernel. Times are at ncu's fixed clock, not at full speed. docs/lab/README.md explains the waits.
"""
import csv
import os
import re
import shutil
import subprocess
import sys

LAB = "./mlp-lab"
MEMORY, TIME = "dram__bytes.sum", "gpu__time_duration.sum"


def said(*command):
    """Runs a command. Returns its exit status and its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def number(row, name):
    return float(row[name].replace(",", "")) if row.get(name) else float("nan")


def kernels_of(text, metric):
    """Yields each kernel's name, counter, MB of memory, ms and waits of ncu's CSV: names, units, a row per kernel."""
    rows = list(csv.DictReader(line for line in text.splitlines() if line.startswith('"')))[1:]
    for row in rows:
        waits = {match[1]: number(row, name) for name in row
                 if (match := re.search(r"issue_stalled_(\w+)_per_issue_active", name)) and match[1] != "selected"}
        yield row["Kernel Name"], number(row, metric), number(row, MEMORY) / 1e6, number(row, TIME) / 1e6, waits


def profile(ncu, topic, rung, metric):
    """Returns the kernels of a rung. If there are none, it exits or prints the reason."""
    report = f"build/profiles/{topic}-{rung}.ncu-rep"
    status, text = said(ncu, "--export", report, "--force-overwrite", "--nvtx", "--nvtx-include", f"{rung}/",
                        "--section", "WarpStateStats", "--metrics", ",".join(filter(None, (TIME, MEMORY, metric))),
                        LAB, topic, "--rung", rung, "--check")
    if status == 0:
        text += said(ncu, "--import", report, "--csv", "--page", "raw", "--print-units", "base",
                     "--print-kernel-base", "function")[1]
    found = list(kernels_of(text, metric))
    if found:
        return found
    if "ERR_NVGPUCTRPERM" in text:
        sys.exit(f"profile: {rung}: this user may not read the counters of the GPU (ERR_NVGPUCTRPERM): ask for "
                 "the permission, or run it as root")
    refused = re.search(r"^refused, .*?: (.*)$", text, re.M)
    print(f"{rung:20}", f"refused: {refused[1]}" if refused else
          "no kernel: " + (re.findall(r"(?:==ERROR==|==WARNING==|mlp-lab:) (.*)", text) or ["ncu gives no reason"])[0])
    return []


def main():
    topic, *rungs = sys.argv[1:] or sys.exit("profile: name a topic: scripts/profile.py softmax")
    nvcc = shutil.which(os.environ.get("NVCC", "nvcc")) or "nvcc"
    status, listing = said(LAB, "list", topic)
    if status:
        sys.exit(listing)
    ncu = shutil.which("ncu") or shutil.which(os.path.join(os.path.dirname(nvcc), "ncu")) or sys.exit(
        "profile: Nsight Compute (ncu) is neither in PATH nor beside nvcc: install the CUDA Toolkit")
    os.makedirs("build/profiles", exist_ok=True)
    metric = "".join(re.findall(r"^metric (\S+):", listing, re.M))
    print(listing.splitlines()[0].removeprefix("topic "), f"counter: {metric}", sep="\n")
    print(f"{'rung':20} {'kernel':24} {'counter':>16} {'memory, MB':>12} {'time, ms':>10}  "
          "longest waits, cycles per instruction")
    for rung in rungs or re.findall(r"^(?:rung|library|part) (\S+):", listing, re.M):
        for name, counter, megabytes, ms, waits in profile(ncu, topic, rung, metric):
            worst = sorted(waits, key=waits.get, reverse=True)[:3]
            print(f"{rung:20} {name:24.24} {counter:16g} {megabytes:12.2f} {ms:10.4f}",
                  "".join(f"  {wait} {waits[wait]:.1f}" for wait in worst))
    print(f"reports: build/profiles/{topic}-*.ncu-rep")


if __name__ == "__main__":
    main()
