"""The rate at which a process of its own reads a file that is not in the page cache, bytes a second: path."""
import os
import sys
import time

BLOCK = 64 << 20

with open(sys.argv[1], "rb", buffering=0) as file:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    buffer = memoryview(bytearray(BLOCK))
    total = 0
    begun = time.perf_counter()
    while True:
        read = file.readinto(buffer)
        if not read:
            break
        total += read
    print(total / (time.perf_counter() - begun))
