"""
Debugging a worker of `capstan run`: breakpoint() opens pdb on the server's terminal, and importing this module starts
debugpy where the server asks for it (CAPSTAN_DEBUGPY, a port; 0 for a free one).
"""
import os
import pdb
import socket
import sys
import threading

# One session of a process at a time; other threads wait at their breakpoint.
_turn = threading.Lock()
# Modules in which stepping never stops: what called the user's function.
_SKIPPED = ["capstan_bootstrap.*", "capstan.*", "asyncio.*", "concurrent.*", "threading", "contextlib"]


class Session(pdb.Pdb):
    """A pdb whose terminal is a connection; it ends with the function in which it began."""

    def __init__(self, connection, first):
        self._connection = connection
        self._first = first
        self._file = connection.makefile("rw", encoding="utf-8", errors="replace", newline="\n")
        super().__init__(stdin=self._file, stdout=self._file, skip=_SKIPPED, nosigint=True)
        self.use_rawinput = False

    def user_return(self, frame, return_value):
        super().user_return(frame, return_value)
        if frame is self._first:
            self.set_continue()

    def set_continue(self):
        super().set_continue()
        self._end()

    def set_quit(self):
        super().set_quit()
        self._end()

    def _end(self):
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # Further breakpoints of pdb would have no terminal.
        self.clear_all_breaks()
        sys.settrace(None)
        try:
            self._file.flush()
        except OSError:
            pass
        connection.close()
        self._file.close()
        _turn.release()


def enter(*_args, **_kwargs):
    """The hook of breakpoint(): PYTHONBREAKPOINT names it."""
    frame = sys._getframe(1)
    _turn.acquire()
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(os.environ["CAPSTAN_DEBUG_SOCKET"])
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        connection.sendall(f"{os.environ.get('CAPSTAN_ENDPOINT_ID', '')} {place}\n".encode())
        # The terminal is this session's once the server answers.
        begun = connection.recv(1) == b"+"
    except (KeyError, OSError) as error:
        _turn.release()
        sys.stderr.write(f"breakpoint() has no terminal: {error}\n")
        return
    if not begun:
        connection.close()
        _turn.release()
        sys.stderr.write("breakpoint() has no terminal: the input of capstan run has ended\n")
        return
    Session(connection, frame).set_trace(frame)


def _listen(port):
    try:
        import debugpy
    except ImportError:
        sys.stderr.write("debugpy is not installed: add it to the dependencies, or install it for this Python\n")
        return
    try:
        host, bound = debugpy.listen(("127.0.0.1", port))
    except (OSError, RuntimeError) as error:
        sys.stderr.write(f"debugpy cannot listen on 127.0.0.1:{port}: {error}\n")
        return
    sys.stderr.write(f"debugger listening on {host}:{bound} (debugpy)\n")


if "CAPSTAN_DEBUGPY" in os.environ:
    _listen(int(os.environ.pop("CAPSTAN_DEBUGPY")))
