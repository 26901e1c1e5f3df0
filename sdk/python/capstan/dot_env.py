"""Reads one variable of ``.env`` in the working folder."""
from __future__ import annotations

import codecs
import os
import re
from typing import Optional

from .errors import DeclarationError

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)\Z", re.ASCII)
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'|`([^`]*)`")


def dot_env_variable(name: str) -> Optional[str]:
    """Returns the variable's value; None without such a file. Raises DeclarationError when the file is unreadable."""
    path = os.path.join(os.getcwd(), ".env")
    try:
        with open(path, "rb") as file:
            return parse_dot_env(_decoded(file.read()), name)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except OSError as error:
        raise DeclarationError(f"cannot read {path} ({error.strerror}); set capstan.api_key or {name}") from error


def _decoded(data: bytes) -> str:
    """UTF-8, or UTF-16 with a byte order mark, as PowerShell redirects output."""
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_utf16 else "utf-8", errors="replace")


def parse_dot_env(text: str, name: str) -> Optional[str]:
    """
    Returns the value of the variable's last line ``NAME=value``, with optional ``export``. A quoted value ends at the
    closing quote; any other ends at a ``#`` and is trimmed. None when it is absent or empty.
    """
    value = None
    for line in re.split(r"\r?\n", text[1:] if text.startswith("\ufeff") else text):
        found = _LINE.match(line)
        if found is None or found.group(1) != name:
            continue
        quoted = _QUOTED.match(found.group(2))
        if quoted is None:
            value = re.sub(r"#.*", "", found.group(2)).strip()
        else:
            value = next(part for part in quoted.groups() if part is not None)
    return value or None
