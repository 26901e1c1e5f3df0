"""Frames to and from the agent (agent/runtimes/frames.ts), and the tie of this process to the agent's lifetime."""
import collections
import fcntl
import json
import os
import signal
import socket
import struct
import threading

# File descriptors, as in agent/runtimes/host-protocol.ts.
CHANNEL_FD = 3
ENTRY_FD = 4
LIFELINE_FD = 5

MAX_FRAME_BYTES = 64 * 1024 * 1024
# Linux only; some versions of the fcntl module lack it.
F_SETSIG = getattr(fcntl, "F_SETSIG", 10)

# Longest wait for another frame before the process ends.
LAST_FRAME_S = 1

PREFIX = struct.Struct("<II")


class Channel:
    """A channel to which any thread sends and from which one thread reads."""

    def __init__(self, interrupts):
        for fd in (CHANNEL_FD, ENTRY_FD, LIFELINE_FD):
            os.set_inheritable(fd, False)
        self._interrupts = interrupts
        self._socket = socket.socket(fileno=CHANNEL_FD)
        self._lock = threading.Lock()
        self._sender = 0
        self._later = collections.deque()
        self.is_open = True
        os.register_at_fork(after_in_child=self._leave)

    def send(self, header, body=b""):
        """Sends a whole frame; blocks while the agent does not read. A forked child has no channel."""
        if not self.is_open:
            return
        text = json.dumps(header).encode()
        frame = b"".join((PREFIX.pack(4 + len(text) + len(body), len(text)), text, body))
        me = threading.get_ident()
        if self._sender == me:
            # A signal handler or a finalizer prints in the middle of another frame.
            self._later.append(frame)
            return
        with self._interrupts, self._lock:
            self._sender = me
            try:
                self._socket.sendall(frame)
                while self._later:
                    self._socket.sendall(self._later.popleft())
            except OSError:
                # The agent is gone.
                kill_group()
            finally:
                self._sender = 0

    def send_last(self, header):
        """Sends a frame of a process that is about to end, unless another frame is stuck: the end must not wait for the agent."""
        if self.is_open and self._sender != threading.get_ident() and self._lock.acquire(timeout=LAST_FRAME_S):
            self._lock.release()
            self.send(header)

    def enter(self, key):
        """
        Reports that a handler is about to be entered, in one system call, so that the report precedes every act of the
        handler.
        """
        os.write(ENTRY_FD, (key + "\n").encode())

    def frames(self):
        """Yields (header, body) until the agent's end closes."""
        have = bytearray()
        while True:
            data = self._socket.recv(1 << 18)
            if not data:
                return
            have += data
            while len(have) >= PREFIX.size:
                length, header_length = PREFIX.unpack_from(have)
                if length > MAX_FRAME_BYTES or header_length + 4 > length:
                    raise ValueError("invalid frame on the private channel")
                end = 4 + length
                if len(have) < end:
                    break
                body_at = PREFIX.size + header_length
                header = json.loads(bytes(have[PREFIX.size : body_at]))
                body = bytes(have[body_at:end])
                del have[:end]
                yield header, body

    def _leave(self):
        """Runs in a child that user code forked: its output must not get between the parent's frames."""
        self.is_open = False
        self._socket.detach()
        for fd in (CHANNEL_FD, ENTRY_FD, LIFELINE_FD):
            try:
                os.close(fd)
            except OSError:
                # User code has already closed every descriptor.
                continue


def utf8(text):
    """Returns the bytes of a text; characters that UTF-8 lacks become question marks."""
    return text.encode("utf-8", "replace")


def tie_to_agent():
    """
    Makes the kernel kill this process group when the agent's end of the lifeline closes. This needs no code of this
    process: a handler may hold the interpreter for any time.
    """
    try:
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(LIFELINE_FD, F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(LIFELINE_FD, fcntl.F_SETFL, fcntl.fcntl(LIFELINE_FD, fcntl.F_GETFL) | os.O_ASYNC)
        # It may have closed before that.
        os.set_blocking(LIFELINE_FD, False)
        if os.read(LIFELINE_FD, 1) == b"":
            kill_group()
    except BlockingIOError:
        # Open, and nothing to read: the normal case.
        return
    except OSError:
        # Not Linux: the reader thread sees the channel close as soon as it gets to run.
        return


def kill_group():
    """Kills this process group, which this process leads: everything its handlers started ends with it."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
