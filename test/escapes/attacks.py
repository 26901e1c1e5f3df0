"""
Tries to leave a worker. Each attack ends in a verdict: `succeeded` with what it got, or `refused` with the error.
What succeeds harms nobody but the test's own victims: what would, is opened and not used.
"""
import ctypes
import errno
import json
import os
import signal
import socket
import sys

from system_attacks import Refused, SYSTEM_ATTACKS

libc = ctypes.CDLL(None, use_errno=True)
MEBIBYTE = 1 << 20
LIMIT_S = 20
FORKS = 400


def secret_of(targets, name):
    """Returns a secret that is passed reversed: an attacker that finds it has found the victim's."""
    return targets["reversed"][name][::-1].encode()


def read(path, secret=b""):
    with open(path, "rb") as file:
        content = file.read(65_536)
    if secret not in content:
        raise Refused(f"{path} holds something else")
    return f"read {path}"


def can_open(path, flags):
    os.close(os.open(path, flags | os.O_CLOEXEC))
    return f"opened {path}"


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def any_process(look):
    """Looks at every process that is visible."""
    for pid in pids():
        try:
            found = look(pid)
        except OSError:
            continue
        if found is not None:
            return found
    raise Refused("no process shows it")


def environment_of_any(targets):
    secret = secret_of(targets, "environment")

    def look(pid):
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"process {pid}" if secret in file.read() else None

    return any_process(look)


def sees_processes(targets):
    mark = secret_of(targets, "commandLine")

    def look(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return f"process {pid}" if mark in file.read() else None

    return any_process(look)


def stack_of(pid):
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            if line.rstrip().endswith("[stack]"):
                return [int(each, 16) for each in line.split()[0].split("-")]
    raise Refused("there is no stack")


def memory(targets):
    begin, end = stack_of(targets["victimPid"])
    with open(f"/proc/{targets['victimPid']}/mem", "rb", buffering=0) as file:
        file.seek(begin)
        if secret_of(targets, "environment") in file.read(end - begin):
            return "its secret is in its memory"
    raise Refused("its memory holds no secret")


class IoVector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def process_vm_readv(targets):
    # The address is checked after the right to read: a wrong one answers EFAULT.
    try:
        begin = stack_of(targets["victimPid"])[0]
    except OSError:
        begin = 4096
    buffer = ctypes.create_string_buffer(64)
    local, remote = IoVector(ctypes.addressof(buffer), 64), IoVector(begin, 64)
    count = libc.process_vm_readv(targets["victimPid"], ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    code = ctypes.get_errno()
    if count < 0 and code != errno.EFAULT:
        raise OSError(code, os.strerror(code))
    return "read its memory"


def ptrace(targets):
    seize = 0x4206
    if libc.ptrace(seize, targets["victimPid"], None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return "attached"


def take_descriptor(targets):
    pidfd_open, pidfd_getfd = 434, 438
    pidfd = libc.syscall(pidfd_open, targets["agentPid"], 0)
    if pidfd < 0 or libc.syscall(pidfd_getfd, pidfd, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return "took a descriptor"


def send_signal(pid, number):
    os.kill(pid, number)
    return f"signalled {pid}"


def limit_victim(targets):
    import resource

    return f"limits: {resource.prlimit(targets['victimPid'], resource.RLIMIT_NOFILE)}"


def slow_victim(targets):
    os.setpriority(os.PRIO_PROCESS, targets["victimPid"], 1)
    return "changed its priority"


def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644))
    os.unlink(path)
    return f"created {path}"


def own_build():
    """Returns a file of its build, wherever a link in the working folder leads."""
    return os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "build.txt"))


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        client.connect(address)
    return f"connected to {address!r}"


def call_worker_api(targets):
    """Asks for a job as the victim's worker, without its token."""
    with socket.create_connection(("127.0.0.1", targets["workerApiPort"]), 5) as client:
        client.sendall(b"GET /v2/ep2/job-take/w2?gpu=x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        status = client.recv(4096).split(b" ")[1].decode()
    if not status.startswith("2"):
        raise Refused(f"status {status}")
    return f"status {status}"


def fork_many(_):
    """Forks children that wait until their parent is done."""
    wait, hold = os.pipe()
    count = 0
    try:
        for count in range(FORKS):
            if os.fork() == 0:
                try:
                    os.close(hold)
                    os.read(wait, 1)
                finally:
                    os._exit(0)
    finally:
        os.close(hold)
        while True:
            try:
                os.wait()
            except OSError:
                break
    return f"{count + 1} processes"


def fill(folder, targets):
    path = os.path.join(folder, f"fill-{os.getpid()}")
    block = b"x" * MEBIBYTE
    try:
        with open(path, "wb", buffering=0) as file:
            for _ in range(targets["fillMebibytes"]):
                if file.write(block) < MEBIBYTE:
                    raise OSError(errno.ENOSPC, "short write")
    finally:
        if os.path.exists(path):
            os.unlink(path)
    return f"wrote {targets['fillMebibytes']} MiB below {folder}"


def descriptors(targets):
    """Looks for what the worker was given beside pipes and its own: a file or a folder of the host."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if any(path.startswith(each) for each in (targets["dataDir"], targets["schedulerDir"], "/proc/1/")):
            found.append(path)
        elif path.startswith("/") and os.path.isdir(path) and not path.startswith("/proc/"):
            found.append(path)
    if not found:
        raise Refused("nothing but its own")
    return ", ".join(found)


def environment_of_agent(targets):
    secret = secret_of(targets, "agent").decode()
    if not any(secret in value for value in os.environ.values()):
        raise Refused("it inherits nothing of the agent's")
    return "it inherited the agent's secret"


def plant_links(targets):
    """Replaces folders of its own by links to the canary: whoever tidies up behind must not follow them."""
    for place in {os.getcwd(), os.environ.get("HOME", "/tmp"), os.environ.get("TMPDIR", "/tmp")}:
        try:
            os.symlink(targets["canaryDir"], os.path.join(place, f"link-{os.getpid()}"))
        except OSError:
            continue
    raise Refused("seen from outside")


def survive(targets):
    """Leaves a process of another session, without environment, that its parent does not know."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sh", ["sh", "-c", f": {secret_of(targets, 'survivor').decode()}; sleep 600"], {})
        os._exit(0)
    os.wait()
    raise Refused("seen from outside")


ATTACKS = {
    "read the agent's identity": lambda t: read(t["identityFile"], b"nodeSecret"),
    "list the agent's data folder": lambda t: str(os.listdir(t["dataDir"] + "/agent")),
    "read the scheduler's master key": lambda t: read(t["masterKey"], secret_of(t, "masterKey")),
    "read a file through /proc/1/root": lambda t: read(f"/proc/1/root{t['masterKey']}", secret_of(t, "masterKey")),
    "read a file through the agent's root": lambda t: read(f"/proc/{t['agentPid']}/root{t['masterKey']}"),
    "read a file through the agent's folder": lambda t: str(os.listdir(f"/proc/{t['agentPid']}/cwd/")),
    "list the agent's descriptors": lambda t: str(os.listdir(f"/proc/{t['agentPid']}/fd")),
    "read /etc/shadow": lambda t: read("/etc/shadow"),
    "see the temporary folder of the host": lambda t: str(os.stat(t["canaryDir"])),
    "read shared memory of another": lambda t: read(t["sharedMemory"]),
    "environment of the agent": lambda t: read(f"/proc/{t['agentPid']}/environ", secret_of(t, "agent")),
    "environment of the victim": lambda t: read(f"/proc/{t['victimPid']}/environ", secret_of(t, "environment")),
    "environment of any process": environment_of_any,
    "see other processes": sees_processes,
    "memory of the victim": memory,
    "write memory of the victim": lambda t: can_open(f"/proc/{t['victimPid']}/mem", os.O_RDWR),
    "process_vm_readv": process_vm_readv,
    "ptrace": ptrace,
    "take a descriptor of the agent": take_descriptor,
    "signal the agent": lambda t: send_signal(t["agentPid"], 0),
    "kill a process of the victim": lambda t: send_signal(t["decoyPid"], signal.SIGKILL),
    "limits of the victim": limit_victim,
    "priority of the victim": slow_victim,
    "write its own build": lambda t: can_open(own_build(), os.O_WRONLY),
    "add to its own build": lambda t: create(os.path.dirname(own_build()) + "/added"),
    "write the build of the victim": lambda t: can_open(t["victimBuild"], os.O_WRONLY),
    "write a file of the system": lambda t: can_open("/etc/passwd", os.O_WRONLY | os.O_APPEND),
    "write /": lambda t: create("/escaped"),
    "write /dev": lambda t: create("/dev/escaped"),
    "a port of loopback": lambda t: connect(socket.AF_INET, ("127.0.0.1", t["loopbackPort"])),
    "a mapped port of loopback": lambda t: connect(socket.AF_INET6, ("::ffff:127.0.0.1", t["loopbackPort"])),
    "the port of the scheduler": lambda t: connect(socket.AF_INET, (t["schedulerHost"], t["schedulerPort"])),
    "an address of the host": lambda t: connect(socket.AF_INET, (t["hostAddress"], t["hostPort"])),
    "the worker API without a token": call_worker_api,
    "an abstract socket": lambda t: connect(socket.AF_UNIX, "\0" + t["abstractSocket"]),
    "a socket in a folder": lambda t: connect(socket.AF_UNIX, t["socketPath"]),
    "descriptors that it inherited": descriptors,
    "variables that it inherited": environment_of_agent,
    "fork 400 times": fork_many,
    "fill /tmp": lambda t: fill("/tmp", t),
    "fill /dev/shm": lambda t: fill("/dev/shm", t),
    "fill the working folder": lambda t: fill(os.getcwd(), t),
    "fill /": lambda t: fill("/", t),
    **SYSTEM_ATTACKS,
    "plant links": plant_links,
    "survive": survive,
}


def attempt(attack, targets):
    try:
        return {"verdict": "succeeded", "detail": str(attack(targets))[:200]}
    except Refused as refused:
        return {"verdict": "refused", "detail": str(refused)}
    except OSError as error:
        return {"verdict": "refused", "detail": errno.errorcode.get(error.errno, str(error))}


def in_child(attack, targets):
    """Runs an attack in a process of its own, since some change their process; a signal that ends it is a refusal."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)
        try:
            verdict = attempt(attack, targets)
        except BaseException as error:  # A mistake here must not look like a refusal.
            verdict = {"verdict": "broken", "detail": repr(error)}
        os.write(send, json.dumps(verdict).encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as file:
        answer = file.read()
    _, status = os.waitpid(child, 0)
    if answer:
        return json.loads(answer)
    return {"verdict": "refused", "detail": f"ended by signal {os.waitstatus_to_exitcode(status)}"}


def run(targets):
    verdicts = {}
    for name, attack in ATTACKS.items():
        try:
            verdicts[name] = in_child(attack, targets)
        except OSError as error:
            verdicts[name] = {"verdict": "broken", "detail": f"no process for it: {error}"}
    return verdicts


if __name__ == "__main__":
    for attack_name, found in run(json.loads(os.environ["TARGETS"])).items():
        print("verdict " + json.dumps({"name": attack_name, **found}), flush=True)
    print("verdicts end", flush=True)
    if sys.argv[1:] == ["stay"]:
        signal.pause()
