"""System calls as places to strike: strace's fault injection (strace(1), "inject").

    trace = self.path("trace")
    self.oncerun(prefix=traced(trace))
    for point in points(trace):
        self.oncerun(prefix=killed_at(point))
        self.oncerun(prefix=failed_at(point, "EIO"))

Only oncerun is struck: without -f its command and its check are not followed. strace counts per
name, from the execve on, so a point is (name, number) and is found again in another run that goes
the same way. A run that goes another way may end before it: then nothing was injected.
"""

import collections
import os
import re

Point = collections.namedtuple("Point", "name number")


def traced(path):
    """A prefix under which oncerun's own system calls are written to `path`, in order."""
    return ["strace", "-o", path]


def calls(path):
    """(point, line) of each call of a trace, in the order in which they were passed; without the
    first execve."""
    counts, found = collections.Counter(), []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if match := re.match(r"([a-z][a-z0-9_]*)\(", line):
                counts[match.group(1)] += 1
                found.append((Point(match.group(1), counts[match.group(1)]), line.rstrip("\n")))
    return found[1:]


# Calls whose texts are names, relative to the folder before them; the texts of others are data.
LOOKUPS = ("readlink", "readlinkat", "newfstatat", "statx", "access", "faccessat2", "statfs")
BY_NAME = LOOKUPS + ("openat", "linkat", "renameat", "renameat2", "unlinkat", "mkdirat", "fchmodat",
                     "fchownat", "link", "rename", "unlink", "mkdir", "getcwd", "execve")


def call_of(line):
    """The name of the call of a trace's line."""
    return re.match(r"[a-z0-9_]*", line).group(0)


def paths_of(line):
    """What the call of a line was asked for, in the order of its arguments; `strace -y` tells the
    files of descriptors. "" and "." are the folder itself."""
    asked = line.rpartition(" = ")[0]
    if call_of(line) not in BY_NAME:
        return re.findall(r"\d+<([^>]*)>", re.sub(r'"(?:[^"\\]|\\.)*"', "", asked))
    found = []
    for folder, text, file in re.findall(
            r'(?:(?:AT_FDCWD|\d+)<([^>]*)>(?:\(deleted\))?, )?"((?:[^"\\]|\\.)*)"|\d+<([^>]*)>', asked):
        found.append(file or os.path.normpath(os.path.join(folder or "/", text)))
    return found


def points(path):
    """The points of a trace, in the order in which they were passed; without the first execve."""
    return [point for point, _ in calls(path)]


def _inject(point, what, log, *also):
    return ["strace", "-o", log or os.devnull, "-e", "trace=" + ",".join({point.name, *also}), "-e",
            f"inject={point.name}:{what}:when={point.number}"]


def killed_at(point, log=None):
    """A prefix: SIGKILL as oncerun enters that call, which is not executed any more."""
    return _inject(point, "signal=KILL", log)


def killed_in_child(name, number, log):
    """A prefix: SIGKILL as a child of oncerun enters its call of that name and number. strace counts
    for each process; a call that oncerun makes itself must not be chosen, its own execve apart, which
    is not struck."""
    return ["strace", "-f", "-o", log, "-e", f"trace={name}", "-e",
            f"inject={name}:signal=KILL:when={number}"]


def failed_in_child(name, number, error, log):
    """A prefix: that call of a child is not executed and returns this error."""
    return ["strace", "-f", "-o", log, "-e", f"trace={name}", "-e",
            f"inject={name}:error={error}:when={number}"]


def failed_at(point, error, log=None, *also):
    """A prefix: that call is not executed and returns this error ("EIO", …). The log names the files
    of descriptors, and tells of the calls in `also`, too."""
    prefix = _inject(point, f"error={error}", log, *also)
    return [prefix[0], "-y", *prefix[1:]]
