"""The ``capstan`` command of the Python package: runs the tool, a Node program, where Node is present.

A wheel holds the tool as an npm package. The first run installs it for the user, into
``$XDG_DATA_HOME/capstan/tool/<version>`` (by default below ``~/.local/share``); later runs start it directly.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NoReturn, Optional

#: Exit codes, as those of the tool: no usable Node; the tool cannot be installed.
NO_NODE = 78
NOT_INSTALLED = 69

_PROGRAM = os.path.join("node_modules", "capstan", "cli", "capstan.mjs")


def main() -> NoReturn:
    """Runs the tool with this process's arguments; ends with its exit code."""
    node = shutil.which("node")
    package = _package()
    if package is None:
        _run_other()
    if node is None:
        _fail(NO_NODE, "capstan requires Node.js 20 or newer", "Install Node.js 24 with npm; the Python SDK works without it.")
    folder = os.path.join(_data_home(), "capstan", "tool", _version(package))
    program = os.path.join(folder, _PROGRAM)
    if not os.path.exists(program):
        _install(package, folder)
    os.execv(node, [node, program] + sys.argv[1:])


def _package() -> Optional[str]:
    """Path of the npm package in this one; None for an installation from sources, which lack it."""
    here = os.path.dirname(os.path.abspath(__file__))
    names = sorted(name for name in os.listdir(here) if re.match(r"capstan-.*\.tgz$", name))
    return os.path.join(here, names[-1]) if names else None


def _version(package: str) -> str:
    return os.path.basename(package)[len("capstan-") : -len(".tgz")]


def _data_home() -> str:
    return os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")


def _install(package: str, folder: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        _fail(NO_NODE, "capstan requires npm to install its tool", "Install Node.js 24 with npm.")
    parent = os.path.dirname(folder)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    print("=> installing the tool (first use only)", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=parent) as scratch:
        draft = os.path.join(scratch, "tool")
        os.mkdir(draft)
        # npm looks for a project in the folders above a folder without one.
        with open(os.path.join(draft, "package.json"), "w", encoding="utf-8") as file:
            file.write('{"private": true}\n')
        done = subprocess.run(
            [npm, "install", "--prefix", draft, "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", package],
            cwd=draft,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode != 0:
            sys.stderr.buffer.write(done.stdout)
            _fail(NOT_INSTALLED, "npm install failed", "See its messages above.")
        try:
            os.rename(draft, folder)
        except OSError:
            # Another process was faster.
            if not os.path.exists(os.path.join(folder, _PROGRAM)):
                raise


def _run_other() -> NoReturn:
    """Runs another ``capstan`` of the PATH, such as the one that npm installed."""
    own = os.path.realpath(sys.argv[0])
    for place in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which("capstan", path=place) if place else None
        if found is not None and os.path.realpath(found) != own:
            os.execv(found, [found] + sys.argv[1:])
    _fail(
        NOT_INSTALLED,
        "this installation of the Python package is from sources, which lack the tool",
        "Install the wheel of a release, or the npm package capstan.",
    )


def _fail(code: int, message: str, hint: str) -> NoReturn:
    print("✗ " + message, file=sys.stderr)
    print("hint: " + hint, file=sys.stderr)
    sys.exit(code)
