"""Runs the cells of a notebook as Jupyter would, but without it: run_notebook.py NOTEBOOK

`!` lines are shell commands, `%cd` changes the folder, anything else is Python, which finds a
stand-in for IPython.display that names what it shows. Prints each cell's number and its output.
Exit status 1 if a command or a cell fails.
"""
import json
import os
import subprocess
import sys
import types


def display(shown):
    print("display", shown)


def run_line(line):
    if line.startswith("%cd "):
        os.chdir(line[4:].strip())
    else:
        sys.stdout.flush()
        subprocess.run(["bash", "-c", line[1:]], check=True, stderr=subprocess.STDOUT)


def run_cell(lines, names):
    if lines[0][0] not in "!%":
        exec("".join(lines), names)
        return
    for line in lines:
        run_line(line)


stand_in = types.ModuleType("IPython.display")
stand_in.display, stand_in.Image = display, str
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython.display"] = stand_in

with open(sys.argv[1], encoding="utf-8") as file:
    cells = [c["source"] for c in json.load(file)["cells"] if c["cell_type"] == "code"]
names = {}
for number, source in enumerate(cells, 1):
    print("cell", number, "of", len(cells))
    run_cell(source, names)
