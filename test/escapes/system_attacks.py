"""Attacks on the kernel's borders: devices, mounts, namespaces, rights, system calls and control groups."""
import ctypes
import fcntl
import glob
import os
import platform
import socket
import stat
import struct

libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
PR_GET_NO_NEW_PRIVS = 39
# The same on every architecture since Linux 5; the older ones by architecture.
FSOPEN, OPEN_TREE, IO_URING_SETUP = 430, 428, 425
BY_ARCHITECTURE = {
    "x86_64": {"add_key": 248, "keyctl": 250, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "finit_module": 313, "pivot_root": 155},
    "aarch64": {"add_key": 217, "keyctl": 219, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "finit_module": 273, "pivot_root": 41},
}
NUMBERS = BY_ARCHITECTURE.get(platform.machine(), {})


class Refused(Exception):
    """An attack that got nothing, without an error of the kernel."""


def checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def call(number, *args):
    return checked(libc.syscall(number, *args))


def named(name, *args):
    if name not in NUMBERS:
        raise Refused(f"the number of {name} is not known here")
    return call(NUMBERS[name], *args)


def can_open(path, flags=os.O_RDONLY):
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if path != "/dev/null" and os.fstat(descriptor).st_rdev == os.makedev(1, 3):
            raise Refused(f"{path} is /dev/null here")
    finally:
        os.close(descriptor)
    return f"opened {path}"


def first_of(paths, flags=os.O_RDONLY):
    """Opens the first path that can be; none existing is a refusal, too."""
    last = Refused("there is none")
    for path in paths:
        try:
            return can_open(path, flags)
        except (OSError, Refused) as error:
            last = error
    raise last


def disks(_):
    devices = [f"/dev/{os.path.basename(path)}" for path in glob.glob("/sys/block/*")]
    return first_of([*devices, *(path for path in glob.glob("/dev/*") if stat.S_ISBLK(os.stat(path).st_mode))])


def make_node(_):
    path = f"node-{os.getpid()}"
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 11))
        return can_open(path)
    finally:
        if os.path.lexists(path):
            os.unlink(path)


def mount_new(_):
    """Mounts below itself: in namespaces of its own where it may make them, so that this host keeps its mounts."""
    checked(libc.unshare(CLONE_NEWNS))
    checked(libc.mount(b"none", b"/", None, 0x44000, None))
    checked(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None))
    return "mounted"


def remount(_):
    checked(libc.unshare(CLONE_NEWNS))
    checked(libc.mount(b"none", b"/", None, 0x44000, None))
    checked(libc.mount(b"none", b"/", None, 0x1020, None))
    return "remounted /"


def unshare(flags):
    checked(libc.unshare(flags))
    return "a namespace of its own"


def enter(name):
    with open(f"/proc/1/ns/{name}") as namespace:
        checked(libc.setns(namespace.fileno(), 0))
    return f"entered the {name} namespace"


def change_root(_):
    os.chroot("/usr")
    return "changed its root"


def pivot(_):
    checked(libc.unshare(CLONE_NEWNS))
    named("pivot_root", b"/", b"/")
    return "pivoted"


def become_root(_):
    """Becomes root, or has a way to: a program with the setuid bit works unless new privileges are forbidden."""
    if os.geteuid() == 0:
        return "it is root"
    try:
        os.setuid(0)
        return "became root"
    except OSError:
        pass
    if libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1:
        raise Refused("no new privileges")
    programs = [path for path in glob.glob("/usr/bin/*") if os.stat(path).st_mode & stat.S_ISUID]
    if not programs:
        raise Refused("no setuid program")
    return f"{programs[0]} gives privileges"


def status():
    with open("/proc/self/status") as file:
        return {name: value.strip() for name, value in (line.split(":", 1) for line in file)}


def capabilities(_):
    found = {name: value for name, value in status().items() if name.startswith("Cap") and int(value, 16) != 0}
    if not found:
        raise Refused("none")
    return str(found)


def add_key(_):
    # The keyring of this process, which goes with it.
    named("add_key", b"user", b"capstan-escape", b"x", 1, -2)
    return "stored a key"


def push_input(_):
    """Types into a terminal that it does not own, where it is root; any terminal shows whether the call is allowed."""
    _, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x5412, b"x")
    return "typed into a terminal"


def raw(family, kind, protocol):
    socket.socket(family, kind, protocol).close()
    return "got a socket"


def own_oom_score(_):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-900")
    return "will not be chosen when memory ends"


def raise_limit(_):
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard + 1))
    except ValueError as error:
        raise Refused(str(error)) from None
    return "raised its limits"


def cgroup_files(name):
    return [*glob.glob(f"/sys/fs/cgroup/{name}"), *glob.glob(f"/sys/fs/cgroup/*/{name}")]


def leave_groups(_):
    """Leaves the limit of processes; stays in all other groups."""
    for path in ["/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/cgroup.procs"]:
        if os.path.exists(path):
            with open(path, "w") as file:
                file.write("0")
            return f"wrote {path}"
    raise Refused("there is no control group")


def bpf(_):
    attributes = ctypes.create_string_buffer(struct.pack("<IIII", 2, 4, 4, 1) + bytes(112))
    os.close(named("bpf", 0, attributes, 128))
    return "made a map"


def perf(_):
    attributes = ctypes.create_string_buffer(struct.pack("<II", 1, 112) + bytes(104))
    os.close(named("perf_event_open", attributes, 0, -1, -1, 0))
    return "counts events"


def uring(_):
    parameters = ctypes.create_string_buffer(248)
    os.close(call(IO_URING_SETUP, 4, parameters))
    return "made a ring"


def load_module(_):
    """The right is checked before the descriptor: EBADF says that it would be loaded."""
    try:
        named("finit_module", -1, b"", 0)
    except OSError as error:
        if error.errno != 9:
            raise
    return "may load modules"


SYSTEM_ATTACKS = {
    "open the kernel log": lambda t: can_open("/dev/kmsg"),
    "open the memory of the host": lambda t: first_of(["/dev/mem", "/dev/port", "/proc/kcore"]),
    "open a disk": disks,
    "open devices that are not assigned": lambda t: first_of(["/dev/kvm", "/dev/net/tun", "/dev/fuse", "/dev/loop-control", "/dev/nvidia0"]),
    "make a device node": make_node,
    "mount": mount_new,
    "make / writable": remount,
    "the new mount calls": lambda t: f"descriptor {call(FSOPEN, b'tmpfs', 0)}",
    "copy a mount": lambda t: f"descriptor {call(OPEN_TREE, -100, b'/', 1)}",
    "a mount namespace": lambda t: unshare(CLONE_NEWNS),
    "a user namespace": lambda t: unshare(CLONE_NEWUSER),
    "a network namespace": lambda t: unshare(CLONE_NEWNET),
    "enter a mount namespace": lambda t: enter("mnt"),
    "enter a network namespace": lambda t: enter("net"),
    "chroot": change_root,
    "pivot_root": pivot,
    "become root": become_root,
    "capabilities": capabilities,
    "the keyring": add_key,
    "type into a terminal": push_input,
    "a raw socket": lambda t: raw(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "a packet socket": lambda t: raw(socket.AF_PACKET, socket.SOCK_RAW, 0x0300),
    "a socket of the kernel's ciphers": lambda t: raw(socket.AF_ALG, socket.SOCK_SEQPACKET, 0),
    "a socket of the hypervisor": lambda t: raw(40, socket.SOCK_STREAM, 0),
    "set core_pattern": lambda t: can_open("/proc/sys/kernel/core_pattern", os.O_WRONLY),
    "set sysctls": lambda t: first_of(["/proc/sys/kernel/panic", "/proc/sys/vm/drop_caches", "/proc/sys/fs/file-max"], os.O_WRONLY),
    "press sysrq": lambda t: can_open("/proc/sysrq-trigger", os.O_WRONLY),
    "set files of /sys": lambda t: first_of(["/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/ksm/run"], os.O_WRONLY),
    "its own OOM score": own_oom_score,
    "raise its limits": raise_limit,
    "leave its control groups": leave_groups,
    "a release agent of control groups": lambda t: first_of(cgroup_files("release_agent"), os.O_WRONLY),
    "bpf": bpf,
    "perf_event_open": perf,
    "userfaultfd": lambda t: f"descriptor {named('userfaultfd', 0)}",
    "io_uring": uring,
    "load a module": load_module,
}
