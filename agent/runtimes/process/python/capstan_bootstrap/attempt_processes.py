"""
Ends what a stopped attempt started and left behind, where the worker runs one attempt at a time: everything of the worker
that was started since the attempt began is its own. What the module or earlier attempts started stays.
"""
import os
import signal
import threading
import time

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
ROUNDS = 50
ROUND_S = 0.01
# Parents get this time to collect their children's exit codes.
COLLECT_S = 1
# Fields after the name in /proc/<pid>/stat, counted from 0 (proc(5)).
STATE, PARENT, TERMINAL, START = 0, 1, 4, 19


def processes_of(order):
    """Returns None for a worker that runs several attempts at a time: a process may be of any of them."""
    if order["maxConcurrency"] > 1 or not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    return AttemptProcesses(order.get("processScope", "marked"), order["workFolder"])


class AttemptProcesses:
    """
    `scope`: what belongs to the worker. `own`: every process that this one sees; `user`: those of its user; `marked`: its
    descendants, and those that inherited its mark or work in its folder.
    """

    def __init__(self, scope, work_folder):
        self._scope = scope
        self._work_folder = work_folder
        self._mark = _mark_of(os.getpid())
        self._since = (0, 0)

    def begin(self):
        """An attempt begins. Takes a few microseconds: most attempts are not stopped."""
        self._since = (time.clock_gettime_ns(time.CLOCK_BOOTTIME) * TICKS_PER_S // 10**9, _last_pid())

    def end(self):
        """Kills what was started since then; returns when it is gone."""
        killed = {}
        refused = set()
        for _ in range(ROUNDS):
            found = self._left(refused)
            if not found:
                break
            for pid, start in found:
                killed[pid] = start
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                except PermissionError:
                    refused.add(pid)
            time.sleep(ROUND_S)
        if killed:
            timer = threading.Timer(COLLECT_S, _collect, [killed])
            timer.daemon = True
            timer.start()

    def _left(self, refused):
        me = os.getpid()
        stats = {pid: stat for pid in _pids() for stat in [_stat_of(pid)] if stat is not None}
        return [
            (pid, stat[START])
            for pid, stat in stats.items()
            if pid != me and pid not in refused and stat[STATE] not in "ZX" and self._is_later(pid, stat) and self._is_own(pid, stats)
        ]

    def _is_later(self, pid, stat):
        tick, last_pid = self._since
        start = int(stat[START])
        return start > tick or (start == tick and pid > last_pid)

    def _is_own(self, pid, stats):
        if self._scope == "own":
            # What has no parent here was sent in from outside, for example an operator's shell.
            return stats[pid][PARENT] != "0"
        if self._scope == "user":
            return _owner_of(pid) == os.getuid()
        parent, me = pid, os.getpid()
        while parent in stats and parent != me:
            parent = int(stats[parent][PARENT])
        if parent == me or (self._mark != b"" and _mark_of(pid) == self._mark):
            return True
        # A person's shell in the folder is not a process of the worker.
        return self._work_folder != "" and stats[pid][TERMINAL] == "0" and _is_within(_folder_of(pid), self._work_folder)


def _collect(killed):
    """Takes the exit codes that nobody has collected: otherwise the processes stay as zombies."""
    me = str(os.getpid())
    for pid, start in killed.items():
        stat = _stat_of(pid)
        if stat is None or stat[START] != start or stat[PARENT] != me:
            continue
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue


def _pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(path):
    """Returns an empty value for a process that is gone, or another user's."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _stat_of(pid):
    # The name is in parentheses and may contain any character.
    fields = _read("/proc/%d/stat" % pid).rpartition(b")")[2].decode().split()
    return fields if len(fields) > START else None


def _last_pid():
    fields = _read("/proc/loadavg").split()
    return int(fields[4]) if len(fields) > 4 else 0


def _mark_of(pid):
    """Returns the mark that a process was started with (agent/runtimes/escaped.ts); empty if it has none."""
    entries = _read("/proc/%d/environ" % pid).split(b"\0")
    return next((entry for entry in entries if entry.startswith(b"CAPSTAN_HOST_ID=")), b"")


def _owner_of(pid):
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None


def _folder_of(pid):
    try:
        return os.readlink("/proc/%d/cwd" % pid)
    except OSError:
        return ""


def _is_within(folder, parent):
    return folder == parent or folder.startswith(parent + "/")
