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

stand_in = types.ModuleType("IPython.display")
stand_in.display, stand_in.Image = (lambda shown: print("display", shown)), str
sys.modules.update({"IPython": types.ModuleType("IPython"), "IPython.display": stand_in})
with open(sys.argv[1], encoding="utf-8") as file:
    cells = [cell["source"] for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
names = {}
for number, source in enumerate(cells, 1):
    print("cell", number, "of", len(cells), flush=True)
    if source[0][0] not in "!%":
        exec("".join(source), names)
        continue
    for line in source:
        if line.startswith("%cd "):
            os.chdir(line[4:].strip())
        else:
            subprocess.run(["bash", "-c", line[1:]], check=True, stderr=subprocess.STDOUT)
