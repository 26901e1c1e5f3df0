"""Frames of a WebSocket (RFC 6455, section 5) at the server's side, without extensions."""
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
# Longest message, bytes, whatever its frames.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_CONTROL_BYTES = 125


class FrameError(Exception):
    """The peer broke the protocol; the connection is closed with `code`."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class FrameReader:
    """Reads the frames of a client."""

    def __init__(self):
        self._buffer = bytearray()
        self._type = 0
        self._fragments = []
        self._length = 0

    def push(self, data):
        """Returns what is complete: pairs of an opcode and text or bytes; of a Close frame (code, reason). Raises FrameError."""
        self._buffer += data
        received = []
        while True:
            frame = self._next()
            if frame is None:
                return received
            whole = self._complete(*frame)
            if whole is not None:
                received.append(whole)

    def _next(self):
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        self._check(first, second)
        short = second & 0x7F
        extra = 2 if short == 126 else 8 if short == 127 else 0
        if len(buffer) < 6 + extra:
            return None
        length = int.from_bytes(buffer[2 : 2 + extra], "big") if extra else short
        if self._length + length > MAX_MESSAGE_BYTES:
            raise FrameError(1009, f"a message must have at most {MAX_MESSAGE_BYTES} bytes")
        begin = 6 + extra
        if len(buffer) < begin + length:
            return None
        payload = _masked(bytes(buffer[begin : begin + length]), bytes(buffer[begin - 4 : begin]))
        del buffer[: begin + length]
        return first, payload

    def _check(self, first, second):
        opcode = first & 0x0F
        is_control = opcode >= CLOSE
        if first & 0x70:
            raise FrameError(1002, "a frame uses an extension that was not negotiated")
        if not second & 0x80:
            raise FrameError(1002, "a client frame must be masked")
        if opcode > PONG or BINARY < opcode < CLOSE:
            raise FrameError(1002, "a frame has an unknown opcode")
        if is_control and (not first & 0x80 or second & 0x7F > MAX_CONTROL_BYTES):
            raise FrameError(1002, "a control frame must have at most 125 bytes and must not be fragmented")
        if not is_control and (opcode == CONTINUATION) == (self._type == 0):
            raise FrameError(1002, "a fragment is out of order")

    def _complete(self, first, payload):
        opcode = first & 0x0F
        if opcode == CLOSE:
            return CLOSE, _close_of(payload)
        if opcode >= CLOSE:
            return opcode, payload
        self._type = opcode or self._type
        self._fragments.append(payload)
        self._length += len(payload)
        if not first & 0x80:
            return None
        kind, whole = self._type, b"".join(self._fragments)
        self._type, self._fragments, self._length = 0, [], 0
        return kind, _text(whole) if kind == TEXT else whole


def frame_of(opcode, payload):
    """Returns a frame of a server."""
    length = len(payload)
    if length < 126:
        head = struct.pack("!BB", 0x80 | opcode, length)
    elif length < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 126, length)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 127, length)
    return head + payload


def is_close_code(code):
    """True for a code that a Close frame may have: of the protocol, of its registry, or of an application (section 7.4)."""
    return isinstance(code, int) and (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999)


def close_frame(code, reason):
    # Cut between characters: a reason must be UTF-8.
    text = reason.encode("utf-8", "replace")[: MAX_CONTROL_BYTES - 2].decode("utf-8", "ignore").encode()
    return frame_of(CLOSE, struct.pack("!H", code) + text)


def _close_of(payload):
    if not payload:
        return 1005, ""
    code = int.from_bytes(payload[:2], "big") if len(payload) > 1 else 0
    if not is_close_code(code):
        raise FrameError(1002, "a Close frame has no valid code")
    return code, _text(payload[2:])


def _masked(payload, mask):
    """XOR of whole numbers, which is a hundred times as fast as byte by byte."""
    length = len(payload)
    repeated = (mask * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(length, "big")


def _text(data):
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FrameError(1007, "text must be UTF-8") from None
