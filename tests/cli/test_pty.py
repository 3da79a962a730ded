"""At a terminal: input, ^Z and fg, ^C and hangups (case P03)."""

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import termios
import time

from oncerun_test import BUSY, DONE, Case, default_signals, main, process_state

PROMPT = "ready> "


class Terminal:
    """The far side of a terminal."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self.text = ""

    def write(self, text):
        os.write(self.master, text.encode())

    def expect(self, pattern, seconds=10):
        """Reads until the pattern shows; what follows it stays for the next call."""
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.text)):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise AssertionError(f"{pattern!r} not within {seconds} s in {self.text!r}")
            try:
                self.text += os.read(self.master, 4096).decode(errors="replace")
            except OSError as error:  # EIO: nobody has the terminal open any more
                raise AssertionError(f"{pattern!r} not in {self.text!r}") from error
        self.text = self.text[match.end():]
        return match

    def close(self):
        for fd in (self.master, self.slave):
            if fd >= 0:
                os.close(fd)
        self.master = self.slave = -1


class AtATerminal(Case):
    def setUp(self):
        super().setUp()
        self.terminal = Terminal()
        self.addCleanup(self.terminal.close)

    def at_terminal(self, argv, **env):
        """A process that leads a session of its own at the terminal."""
        slave = self.terminal.slave

        def take_terminal():
            default_signals()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        return self.spawn(argv, stdin=slave, stdout=slave, stderr=slave, preexec_fn=take_terminal,
                          env={"TERM": "dumb", "PS1": PROMPT, **env})

    def shell(self):
        self.need("bash")
        shell = self.at_terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"])
        self.terminal.expect(PROMPT)
        return shell

    def typed(self, argv):
        """Lets the shell start this, so that it is a job of its own and the line is a short one."""
        self.script("go", "exec " + shlex.join(argv) + "\n")
        self.terminal.write('"$D/go"\n')

    def owner(self):
        """The pid of the oncerun that runs the newest attempt."""
        return self.row()["pid"]

    def wait_until_stopped(self, *pids):
        self.wait_for(lambda: [process_state(pid) for pid in pids] == ["T"] * len(pids), 10,
                      "every process of the job to be stopped")

    def suspend(self, owner, pid):
        """^Z. The shell waits for oncerun alone: the command may be about to read still when the
        prompt is there, and would take what is typed next."""
        self.terminal.write("\x1a")
        self.terminal.expect("Stopped")
        self.terminal.expect(PROMPT)
        self.wait_until_stopped(owner, pid)

    def stopped_again(self):
        """Whether the shell, which has let its job go on, says that it is stopped."""
        self.terminal.write("jobs\n")
        said = self.terminal.expect(r"\[1\]\+ +(\w+)").group(1)
        self.terminal.expect(PROMPT)
        return said == "Stopped"

    def test_P03_a_command_reads_from_the_terminal(self):
        gate = self.gate()
        process = self.at_terminal(self.argv(
            "--timeout", "30", command=f"{gate.announce}; read x; echo got:$x"))
        gate.wait_started()
        self.terminal.write("hello\n")
        self.terminal.expect("got:hello", 2)
        self.assertExit(process.end(10), DONE)

    def test_P03_the_prompt_of_an_interactive_shell_works_afterwards(self):
        self.shell()
        gate = self.gate()
        self.typed(self.argv("--timeout", "30",
                             command=f"{gate.announce}; read x; echo got:$x"))
        pid = gate.wait_started()
        self.terminal.write("hello\n")
        self.terminal.expect("got:hello", 2)
        self.terminal.expect(PROMPT)
        self.assertIsNone(process_state(pid))
        self.terminal.write("echo answer:$((6 * 7))\n")
        self.terminal.expect("answer:42")
        self.assertStatus("done")

    def test_stop_and_foreground_work(self):
        self.shell()
        gate = self.gate()
        self.typed(self.argv("--timeout", "60",
                             command=f"{gate.announce}; read x; echo got:$x"))
        pid = gate.wait_started()
        owner = self.owner()
        self.suspend(owner, pid)
        self.assertExit(self.oncerun(), BUSY)  # stopped, not gone
        self.terminal.write("fg\n")
        self.wait_for(lambda: process_state(owner) != "T" and process_state(pid) != "T", 10,
                      "both to go on")
        self.terminal.write("hello\n")
        self.terminal.expect("got:hello", 5)
        self.terminal.expect(PROMPT)
        self.assertStatus("done")

    def test_background_and_foreground_work(self):
        self.shell()
        gate = self.gate()
        self.typed(self.argv(command=f"{gate.announce}; read x; echo got:$x"))
        pid = gate.wait_started()
        owner = self.owner()
        self.suspend(owner, pid)
        self.terminal.write("bg\n")
        self.terminal.expect(PROMPT)
        # It reads in the background: the terminal stops the whole group.
        self.wait_for(self.stopped_again, 10, "a stop for terminal input")
        self.wait_until_stopped(owner, pid)
        self.terminal.write("fg\n")
        self.wait_for(lambda: process_state(pid) not in ("T", None), 10, "the command to go on")
        self.terminal.write("hello\n")
        self.terminal.expect("got:hello", 5)
        self.terminal.expect(PROMPT)
        self.assertStatus("done")

    def counting(self, name, gate):
        """A job that counts a signal, and USR1 behind it, and then waits to be let go."""
        return (f"trap 'echo {name} >>\"$D/seen\"' {name}; trap 'echo USR1 >>\"$D/seen\"' USR1; "
                f"{gate.announce}; {gate.patient}; exit 0")

    def assertOnce(self, name, owner, gate):
        self.wait_for(lambda: name in self.lines("seen"), 10, f"{name} in the command")
        # What oncerun passes on comes in order: a second one would stand before this.
        os.kill(owner, signal.SIGUSR1)
        self.wait_for(lambda: "USR1" in self.lines("seen"), 10, "USR1 in the command")
        gate.go()
        self.wait_for(lambda: process_state(owner) in (None, "Z"), 10, "the end")
        self.assertEqual(self.lines("seen"), [name, "USR1"])

    def key_arrives_once(self, name, key, code):
        gate = self.gate()
        process = self.at_terminal(self.argv(command=self.counting(name, gate)))
        gate.wait_started()
        self.terminal.write(key)
        self.assertOnce(name, process.pid, gate)
        # It exited 0, but after a stop that proves nothing.
        self.assertExit(process.end(10), code)
        self.assertStatus("unknown")

    def test_an_interrupt_from_the_terminal_arrives_once(self):
        self.key_arrives_once("INT", "\x03", 130)

    def test_a_quit_from_the_terminal_arrives_once(self):
        self.key_arrives_once("QUIT", "\x1c", 131)

    def test_an_untrapped_interrupt_ends_the_command(self):
        gate = self.gate()
        process = self.at_terminal(self.argv(command=f"{gate.announce}; exec sleep 60"))
        gate.wait_started()
        self.terminal.write("\x03")
        self.assertExit(process.end(10), 130)
        self.assertStatus("unknown")

    def test_a_change_of_the_windows_size_arrives_once(self):
        gate = self.gate()
        process = self.at_terminal(self.argv(command=self.counting("WINCH", gate)))
        gate.wait_started()
        fcntl.ioctl(self.terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.assertOnce("WINCH", process.pid, gate)
        self.assertExit(process.end(10), DONE)

    def test_a_hangup_that_only_the_sessions_leader_gets_reaches_the_command(self):
        gate = self.gate()
        process = self.at_terminal(self.argv(command=self.counting("HUP", gate)))
        gate.wait_started()
        self.terminal.close()
        self.assertOnce("HUP", process.pid, gate)
        self.assertExit(process.end(10), DONE)
        self.assertStatus("done")

    def test_a_skip_speaks_at_a_terminal(self):
        self.assertExit(self.oncerun(), DONE)
        process = self.at_terminal(self.argv())
        self.terminal.expect("done")
        self.assertExit(process.end(10), DONE)


if __name__ == "__main__":
    main()
