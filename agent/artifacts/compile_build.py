"""
Compiles the Python sources of an unpacked build, in whose folder it is started, and prints the bytes that it wrote.

A worker that may not write there would compile them at each of its starts. The files are marked as valid whatever the times of their
sources are (PEP 552): nothing changes a build. A source is parsed by a process that, started by root, gives up its user and can write
nothing: it returns the code as bytes, which this process stores without reading them.
"""
import importlib.util
import marshal
import os
import resource
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
CPU_SECONDS = 300
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


def parse(requests, replies):
    """Runs in the process without rights: source in, code out; no code for what this Python cannot compile."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
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
        try:
            code = marshal.dumps(compile(source, name.decode("utf-8", "surrogateescape"), "exec", dont_inherit=True, optimize=0))
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            code = b""
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


def main():
    requests, to_parser = os.pipe()
    from_parser, replies = os.pipe()
    parser = os.fork()
    if parser == 0:
        try:
            os.close(to_parser)
            os.close(from_parser)
            parse(requests, replies)
        finally:
            os._exit(0)
    os.close(requests)
    os.close(replies)
    written = 0
    limit = max(MAX_WRITTEN, 2 * sum(size for _, size in sources()))
    try:
        for path, _ in sources():
            try:
                with open(path, "rb") as file:
                    source = file.read(MAX_SOURCE)
            except OSError:
                continue
            # The path is replaced by that of the source when the code is loaded.
            name = os.fsencode(path)
            write_all(to_parser, struct.pack("<II", len(source), len(name)) + name + source)
            head = read_exactly(from_parser, 4)
            if head is None:
                break
            (size,) = struct.unpack("<I", head)
            if size > MAX_CODE:
                break
            code = read_exactly(from_parser, size)
            if code is None:
                break
            if code:
                written += store(path, source, code, limit - written)
    except BrokenPipeError:
        pass  # a source has ended the parser: the rest is compiled when it is imported
    finally:
        print(written)


main()
