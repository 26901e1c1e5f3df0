"""
Makes the folders of a working folder ones that frameworks serve files from.

A working folder holds links to the files of the build. Starlette, BlackSheep and others refuse a file that is a link out of
its folder, so ``StaticFiles(directory="static")`` would find nothing. A web application therefore gets copies of the files in
its folders, up to a bound; a folder that exceeds it becomes one link to that of the build, and nothing can be written into it.
The development server's workers get the link, so that a change of a file shows.
"""
from __future__ import annotations

import os
import shutil
from typing import List

#: Bytes copied at most: the working folder of a sandbox is in memory.
MAX_BYTES = 32 * 1024 * 1024


def own_files(folder: str, build: str, is_development: bool = False) -> None:
    """Replaces links to files in the folders of ``folder`` that hold no Python sources; Python itself follows links."""
    left = 0 if is_development else MAX_BYTES
    with os.scandir(folder) as found:
        names = sorted(each.name for each in found if each.is_dir(follow_symlinks=False) and not each.name.startswith("."))
    for name in names:
        target = os.path.join(folder, name)
        links = _links_below(target, os.path.join(build, ""))
        if links is None or not links:
            continue
        size = sum(os.stat(each).st_size for each in links)
        if size <= left:
            left -= size
            for each in links:
                _copy(each)
        else:
            shutil.rmtree(target)
            os.symlink(os.path.join(build, name), target)


def _links_below(folder: str, build: str) -> "List[str] | None":
    """Returns the links to files of the build; None when it holds anything else, or Python sources."""
    found: List[str] = []
    for path, folders, files in os.walk(folder):
        for name in files:
            file = os.path.join(path, name)
            if name.endswith(".py") or not os.path.islink(file) or not os.path.realpath(file).startswith(build):
                return None
            if os.path.isfile(file):
                found.append(file)
        if any(os.path.islink(os.path.join(path, name)) for name in folders):
            # A folder that is linked as a whole is large.
            return None
    return found


def _copy(link: str) -> None:
    source = os.readlink(link)
    os.remove(link)
    shutil.copyfile(source, link)
