#!/usr/bin/env python3
"""check_includes.py FLOOR... prints every #include that breaks a rule, and exits with 1 if there is one.

A FLOOR names folders of src/, joined by +; the lowest floor comes first. A file may include only files of its own
floor or below; the mains may include all. From src/, kernels/ may include only base/. No cycle of includes is allowed,
neither of files nor of folders. x.c and x.h count as one file.
"""
import graphlib
import pathlib
import re
import sys

FLOOR = {name: level for level, names in enumerate(sys.argv[1:]) for name in names.split("+")}
bad, files, folders = [], {}, {}


def folder(path):
    """Returns the folder in src/, or "" for the mains."""
    return path.parts[1] if len(path.parts) > 2 else ""


for path in sorted(path for top in ("src", "kernels") for path in pathlib.Path(top).rglob("*")
                   if path.suffix in (".c", ".h", ".cu", ".cuh")):
    for name in re.findall(r'^#include "(.*)"$', path.read_text(encoding="utf-8"), re.M):
        to = next((to for top in ("src", "kernels") if (to := pathlib.Path(top, name)).is_file()), None)
        if not to:
            bad.append(f"{path}: there is no {name}")
            continue
        here, there, stem = folder(path), folder(to), path.with_suffix("")
        files.setdefault(stem, set()).update({to.with_suffix("")} - {stem})
        if path.parts[0] == "kernels":
            if to.parts[0] == "src" and there != "base":
                bad.append(f"{path}: includes {to}, but kernels/ takes only base/ of src/")
        elif to.parts[0] == "src" and here:
            if here not in FLOOR:
                bad.append(f"{path}: the plan has no folder {here}")
            elif FLOOR.get(there, len(FLOOR)) > FLOOR[here]:
                bad.append(f"{path}: includes {to} of a higher floor")
            elif here != there:
                folders.setdefault(here, set()).add(there)
for kind, graph in ("files", files), ("folders", folders):
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as ring:
        bad.append(f"{kind} include each other: " + " ".join(map(str, ring.args[1])))
sys.exit("\n".join(bad) or None)
