#!/usr/bin/env python3
"""Checks that every link between the pages leads to a file, and to a heading of it if it names one.

check_links.py prints each link of a page that leads nowhere; then the exit status is 1. Links to
other sites are not followed."""
import glob
import os
import re
import sys

pages = [page for page in sorted(glob.glob("**/*.md", recursive=True)) if not page.startswith("build")]


def text_of(page):
    """The page without its blocks of code."""
    with open(page, encoding="utf-8") as file:
        return re.sub(r"^(```|~~~).*?^\1", "", file.read(), flags=re.M | re.S)


def anchors_of(page):
    """The anchors that GitHub gives to the headings of a page."""
    anchors, seen = set(re.findall(r'<a (?:id|name)="([^"]+)"', text_of(page))), {}
    for heading in re.findall(r"^#{1,6} +(.*)", text_of(page), re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        seen[anchor] = seen.get(anchor, -1) + 1
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
    return anchors


bad = 0
for page in pages:
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text_of(page))):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(to):
            why = f"there is no {to}"
        elif anchor and to.endswith(".md") and anchor not in anchors_of(to):
            why = f"{to} has no heading #{anchor}"
        else:
            continue
        bad = 1
        print(f"{page}: the link to {link} leads nowhere: {why}")
sys.exit(bad)
