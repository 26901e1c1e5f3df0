"""
Compiles the Python sources of an unpacked build, in whose folder it is started, and prints the bytes that it wrote.

A worker that may not write there would compile them at each of its starts. The files are marked as valid whatever the times of their
sources are (PEP 552): nothing changes a build. A source is parsed by a process that, started by root, gives up its user and can write
nothing: it returns the code as bytes, which this process stores without reading them. A source that takes too long ends its parser, and
the next one gets another. Both processes end when the agent does, however it ends: it holds the other end of standard input.
"""
import fcntl
import importlib.util
import marshal
import os
import resource
import select
import signal
import stat
import struct
import sys

#: Flags of a pyc file with the hash of its source that is never compared.
UNCHECKED = 0b01
#: Sources that people write are smaller; generated tables are not worth the memory.
MAX_SOURCE = 2_000_000
MAX_CODE = 16_000_000
#: Of all compiled files, or twice the bytes of the sources where that is more: code can be 10,000 times as large as its source.
MAX_WRITTEN = 64 << 20
MEMORY = 2 << 30
#: Processor time for all sources, s.
CPU_SECONDS = 300
#: Processor time for one source, s: one of MAX_SOURCE that people write takes 2.
SOURCE_SECONDS = float(sys.argv[1])
NOBODY = 65534


def sources():
    for folder, folders, files in os.walk("."):
        folders[:] = sorted(each for each in folders if each not in ("__pycache__", "node_modules") and not os.path.islink(os.path.join(folder, each)))
        for name in sorted(files):
            path = os.path.join(folder, name)
            if not name.endswith(".py"):
                continue
            try:
                fact = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(fact.st_mode) and fact.st_size <= MAX_SOURCE:
                yield path, fact.st_size


def read_exactly(file, size):
    parts = []
    while size > 0:
        part = os.read(file, min(size, 1 << 16))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_all(file, data):
    while data:
        data = data[os.write(file, data) :]


def end_with(file):
    """
    The kernel ends this process when the other end of `file` closes, whatever it is doing: SIGIO is not handled. Nothing is ever
    written to `file`.
    """
    fcntl.fcntl(file, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([file], [], [], 0)[0]:
        os._exit(1)


def parse(requests, replies, cpu_seconds):
    """Runs in the process without rights: source in, code out; no code for what this Python cannot compile."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    import warnings

    warnings.simplefilter("ignore")
    while True:
        head = read_exactly(requests, 8)
        if head is None:
            return
        size, name_size = struct.unpack("<II", head)
        name = read_exactly(requests, name_size)
        source = read_exactly(requests, size)
        # Ends this process, which cannot handle signals while it compiles.
        signal.setitimer(signal.ITIMER_PROF, SOURCE_SECONDS)
        try:
            code = marshal.dumps(compile(source, name.decode("utf-8", "surrogateescape"), "exec", dont_inherit=True, optimize=0))
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            code = b""
        signal.setitimer(signal.ITIMER_PROF, 0)
        if len(code) > MAX_CODE:
            code = b""
        write_all(replies, struct.pack("<I", len(code)) + code)


def store(path, source, code, room):
    """Returns the bytes that it wrote: none where the file system refuses, as for a name that is too long, or where there is no room."""
    target = importlib.util.cache_from_source(path)
    folder = os.path.dirname(target)
    data = importlib.util.MAGIC_NUMBER + struct.pack("<I", UNCHECKED) + importlib.util.source_hash(source) + code
    if os.path.islink(folder) or len(data) > room:
        return 0
    unfinished = "%s.%d" % (target, os.getpid())
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    except OSError:
        return 0
    try:
        try:
            write_all(file, data)
        finally:
            os.close(file)
        os.replace(unfinished, target)
    except OSError:
        os.unlink(unfinished)
        return 0
    return len(data)


class Parsers:
    """The process that parses, and the next one when a source has ended it."""

    def __init__(self):
        self._pid = None
        self._used = 0.0

    def code_of(self, path, source):
        """Returns no code for what cannot be compiled, and None when the processor time for all sources is used up."""
        if self._pid is None and not self._start():
            return None
        # The path is replaced by that of the source when the code is loaded.
        name = os.fsencode(path)
        try:
            write_all(self._to_parser, struct.pack("<II", len(source), len(name)) + name + source)
            head = read_exactly(self._from_parser, 4)
            size = 0 if head is None else struct.unpack("<I", head)[0]
            code = None if head is None or size > MAX_CODE else read_exactly(self._from_parser, size)
        except BrokenPipeError:
            code = None
        if code is None:
            self.end()
            return b""
        return code

    def _start(self):
        cpu_seconds = int(CPU_SECONDS - self._used)
        if cpu_seconds <= 0:
            return False
        requests, self._to_parser = os.pipe()
        self._from_parser, replies = os.pipe()
        ended, self._lifeline = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                for each in (self._to_parser, self._from_parser, self._lifeline):
                    os.close(each)
                end_with(ended)
                parse(requests, replies, cpu_seconds)
            finally:
                os._exit(0)
        for each in (requests, replies, ended):
            os.close(each)
        return True

    def end(self):
        if self._pid is None:
            return
        for each in (self._to_parser, self._from_parser, self._lifeline):
            os.close(each)
        _, _, usage = os.wait4(self._pid, 0)
        self._used += usage.ru_utime + usage.ru_stime
        self._pid = None


def main():
    end_with(0)
    written = 0
    limit = max(MAX_WRITTEN, 2 * sum(size for _, size in sources()))
    parsers = Parsers()
    try:
        for path, _ in sources():
            try:
                with open(path, "rb") as file:
                    source = file.read(MAX_SOURCE)
            except OSError:
                continue
            code = parsers.code_of(path, source)
            if code is None:
                break  # the rest is compiled when it is imported
            if code:
                written += store(path, source, code, limit - written)
        parsers.end()
    finally:
        print(written)


main()
