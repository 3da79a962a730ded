"""Asks a real bash for completions, the way readline would."""

import pathlib
import subprocess

COMPLETION = pathlib.Path(__file__).resolve().parents[2] / "completions" / "oncerun.bash"

# Lets bash itself cut the line into COMP_WORDS: a throw-away completion function, run by readline in
# a pseudo-terminal, would be slower and no truer than this, which uses the documented variables.
_ASK = r"""
source "$COMPLETION" || exit 1
%s
COMP_LINE=$LINE
COMP_POINT=${#LINE}
COMP_TYPE=9 COMP_KEY=9
COMP_WORDS=("${@}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_oncerun
((${#COMPREPLY[@]})) && printf '%%s\0' "${COMPREPLY[@]}"
exit 0
"""


def cut(line, breaks="=:"):
    """The words of a line as bash's COMP_WORDS has them: cut at blanks and around break characters.
    Lines of these tests have no quotes."""
    words = []
    for part in line.split(" "):
        word = ""
        pieces = []
        for letter in part:
            if letter in breaks:
                if word and word[-1] not in breaks:
                    pieces.append(word)
                    word = ""
                word += letter
            else:
                if word and word[-1] in breaks:
                    pieces.append(word)
                    word = ""
                word += letter
        pieces.append(word)
        words += pieces
    kept = [word for word in words[:-1] if word]
    return kept + words[-1:]


def complete(line, program, env=None, before="", cwd=None, breaks="=:"):
    """The replies for the cursor at the end of `line`, whose first word is replaced by `program`."""
    words = cut(line, breaks)
    words[0] = program
    line = line.replace("oncerun", program, 1)
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LINE": line,
                   "COMPLETION": str(COMPLETION), **(env or {})}
    result = subprocess.run(["bash", "--norc", "-c", _ASK % before, "bash", *words], cwd=cwd,
                            env=environment, capture_output=True, check=False, timeout=60)
    if result.returncode != 0 or result.stderr:
        raise AssertionError(f"bash: exit {result.returncode}: {result.stderr.decode()}")
    return [reply.decode() for reply in result.stdout.split(b"\0")[:-1]]
