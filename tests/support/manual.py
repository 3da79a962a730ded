"""Reads the manual pages' sources: options, subcommands, examples."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def source(name):
    return (ROOT / "man" / name).read_text(encoding="utf-8")


def options(text):
    """{long name: (short letter or "", value's name or "")} of ".It Fl ..." lines."""
    found = {}
    line = re.compile(r"^\.It (?:Fl (\w) , )?Fl Fl ([\w-]+)(?: Ar (\S+))?$", re.M)
    for short, name, value in line.findall(text):
        found[name] = (short or "", value)
    return found


def section(text, title, level="Sh"):
    """The lines of a section, up to the next one of its level or above."""
    ends = "Sh" if level == "Sh" else "Sh|Ss"
    match = re.search(rf"^\.{level} {re.escape(title)}\n(.*?)(?=^\.(?:{ends}) |\Z)", text, re.M | re.S)
    if match is None:
        raise LookupError(f"no section {title}")
    return match.group(1)


def subsections(text):
    return re.findall(r"^\.Ss (.+)$", text, re.M)


def examples(text):
    """{name: text} of the displays that a comment marks as examples."""
    found = {}
    display = re.compile(r'^\.\\" example: (\S+)\n\.Bd [^\n]*\n(.*?)^\.Ed$', re.M | re.S)
    for name, body in display.findall(text):
        found[name] = body.replace("\\&", "").replace("\\e", "\\").replace("\\-", "-")
    return found
