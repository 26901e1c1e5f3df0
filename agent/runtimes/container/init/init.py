"""
First process of a Python worker's container. It connects to the agent, starts the worker's host in a
session of its own, reaps what is left to it, and tells how the host ended. When the agent is gone it
ends, and the kernel then ends everything in the container. Any Python can read this file.
"""
import sys

if sys.version_info < (3, 8):
    sys.stderr.write("Python 3.8 or newer is required; this is %s\n" % sys.version.split()[0])
    sys.exit(1)

import fcntl
import os
import select
import signal
import socket

# As agent/runtimes/container/layout.ts and agent/runtimes/host-protocol.ts have them.
SOCKET = "/capstan/channel/s"
ROLES = (b"c", b"e", b"l")
FIRST_FD = 3
BOOTSTRAP = "/capstan/bootstrap/agent/runtimes/process/python"


def connect(role):
    made = socket.socket(socket.AF_UNIX)
    made.connect(SOCKET)
    made.sendall(role)
    return made


def become_host(connections):
    os.setsid()
    # Out of the way first: a descriptor must not be replaced before it was copied.
    copies = [fcntl.fcntl(each.detach(), fcntl.F_DUPFD, 64) for each in connections]
    for at, copy in enumerate(copies, FIRST_FD):
        os.dup2(copy, at)
        os.close(copy)
    sys.path[0] = BOOTSTRAP
    from capstan_bootstrap.host import main

    # This folder was only for the line above; the user's code gets the path of its own build.
    sys.path.pop(0)
    # The first process ends everything when the agent is gone. In gVisor a signal by O_ASYNC comes without a cause.
    main(ties=False)


def supervise(host, lifeline):
    """Returns how the host ended; does not return when the agent is gone."""
    awake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    for passed_on in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(passed_on, lambda number, _frame: pass_on(host, number))
    poll = select.poll()
    poll.register(awake, select.POLLIN)
    poll.register(lifeline, select.POLLIN)
    while True:
        status = reap(host)
        if status is not None:
            return status
        for ready, _events in poll.poll():
            if ready == awake:
                os.read(awake, 4096)
            elif not lifeline.recv(4096):
                os._exit(128 + signal.SIGKILL)


def pass_on(host, number):
    try:
        os.killpg(host, number)
    except ProcessLookupError:
        # Not in its own session yet, or gone: the agent has force.
        return


def reap(host):
    """Takes away every process that has ended; the host's status once it is among them."""
    ended = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if pid == host:
            ended = status


def ran_out_of_memory():
    """Not every engine tells it of a process that is not the container's first. The files of cgroup v2 and v1."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path) as events:
                counts = dict(line.split() for line in events)
        except (OSError, ValueError):
            continue
        if int(counts.get("oom_kill", 0)) > 0:
            return True
    return False


def main():
    connections = [connect(role) for role in ROLES]
    host = os.fork()
    if host == 0:
        become_host(connections)
        return
    channel, entry, lifeline = connections
    # Copies of this process would keep the agent from seeing the host's end of them.
    channel.close()
    entry.close()
    status = supervise(host, lifeline)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = " oom" if number == signal.SIGKILL and ran_out_of_memory() else ""
        report, code = "signal %d%s\n" % (number, why), 128 + number
    else:
        code = os.WEXITSTATUS(status)
        report = "exit %d\n" % code
    try:
        lifeline.sendall(report.encode())
    except OSError:
        # The agent is gone: nobody wants to know.
        pass
    os._exit(code)


# multiprocessing imports the main file again in the processes it spawns: those are no containers.
if __name__ == "__main__":
    main()
