"""Prints gcovr's JSON summary as a table: lines and branches of each folder of src/, and in total."""

import collections
import json
import sys


def percent(covered, total):
    # Rounded down: a figure is never better than what it counts.
    return f"{1000 * covered // total / 10:5.1f} %" if total else "      -"


def main(path):
    with open(path, encoding="utf-8") as file:
        files = json.load(file)["files"]
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    for entry in files:
        parts = entry["filename"].split("/")
        counts = [entry["line_covered"], entry["line_total"], entry["branch_covered"], entry["branch_total"]]
        for name in ("/".join(parts[:2]) if len(parts) > 2 else "src", "total"):
            sums[name] = [have + more for have, more in zip(sums[name], counts)]
    print(f"{'folder':<12} {'lines':>7} {'covered':>8}   {'branches':>8} {'covered':>8}")
    for name in sorted(sums, key=lambda name: (name == "total", name)):
        lines, all_lines, branches, all_branches = sums[name]
        print(f"{name:<12} {all_lines:>7} {percent(lines, all_lines):>8}   {all_branches:>8} "
              f"{percent(branches, all_branches):>8}")


if __name__ == "__main__":
    main(sys.argv[1])
