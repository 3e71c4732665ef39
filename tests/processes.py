"""Commands as processes of their own, brought to a stand at a moment to look at them. Nothing here depends on who is fast.

A process that goes on while a test looks at it may be elsewhere when the test acts. So it is stopped (SIGSTOP) first, then
looked at; if it had left the moment before it stood, it goes on and is caught later. What it is sent meanwhile it gets when
it goes on, but for SIGKILL, which does not wait.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import time

PATIENCE = 600  # seconds; far more than anything here takes on a busy machine, and a green test never waits so long


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


@contextlib.contextmanager
def started(command, **more):
    """A process that does not outlive the block, nor do its workers."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True, **more) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                for number in (*children(process.pid), process.pid):
                    send(number, signal.SIGKILL)


def send(number, what):
    with contextlib.suppress(ProcessLookupError):  # gone is gone
        os.kill(number, what)


def children(number):
    """Of a process, all of their numbers."""
    try:
        with open(f"/proc/{number}/task/{number}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def states(number):
    """A letter for each thread of a process: T for one that stands still, Z for one that has ended; none if it is gone."""
    found = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{number}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{number}/task/{thread}/stat") as file:
                found.add(file.read().rpartition(")")[2].split()[0])
    return found


def alive(number):
    """Whether a thread of the process is left; only then are its files and sockets closed.

    The kernel is asked, not /proc: while threads end, a list of them may miss others that have not.
    """
    try:
        descriptor = os.pidfd_open(number)
    except ProcessLookupError:
        return False
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        return not ended.poll(0)
    finally:
        os.close(descriptor)


def stand(number, holds):
    """Bring a process and its children to a stand at a moment at which `holds()`. Returns their numbers, its own first; none
    if it ended before."""
    standing = []

    def caught():
        if not alive(number):
            return True
        if holds():
            halt(number)
            standing[:] = [number, *children(number)]  # it makes no more
            for child in standing[1:]:
                halt(child)
            if alive(number) and holds():
                return True
            resume(standing)
            standing.clear()
        return False

    wait_for(caught)
    return standing


def halt(number):
    send(number, signal.SIGSTOP)
    wait_for(lambda: states(number) <= {"T", "Z", "X"})


def resume(numbers):
    for number in numbers:
        send(number, signal.SIGCONT)


def under_way(folder):
    """{seed: numbers of its checkpoints} of the runs that have some.

    os.walk, unlike glob, does not mind that folders go away while it looks.
    """
    found = {}
    for path, _, names in os.walk(folder / "checkpoints"):
        if numbers := sorted(int(name[:-5]) for name in names if name.endswith(".json")):
            found[int(re.search(r"-s(\d+)-", os.path.basename(path))[1])] = numbers
    return found


def midway(folder, least=1):
    """Seeds of the runs on split-digits with so many checkpoints that are not about to end.

    A run has 124 steps, and its last checkpoint the number 253. With one at every step (--checkpoint-every 0) it is never
    more than a step beyond its newest, so a signal or a kill is sure to hit it before its end.
    """
    return sorted(seed for seed, numbers in under_way(folder).items() if len(numbers) >= least and numbers[-1] < 240)
