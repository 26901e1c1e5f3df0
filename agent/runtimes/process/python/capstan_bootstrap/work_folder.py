"""The working folder of a worker, filled from the build as described in agent/runtimes/work-folder.ts."""
import os
import re
import sys

MAX_ENTRIES = 2000
WHOLE = re.compile(r"(?:\..*|node_modules|python_packages|__pycache__)\Z")


def fill_work_folder(folder, build):
    """Creates the folder if it is missing: folders of the build become folders, files become symbolic links."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    left = MAX_ENTRIES
    pending = [(build, folder, entries_of(build))]
    while pending:
        source, target, entries = pending.pop(0)
        for name, is_folder in entries:
            inner_source, inner_target = os.path.join(source, name), os.path.join(target, name)
            inner = entries_of(inner_source) if is_folder and not WHOLE.match(name) else None
            if inner is None or len(inner) > left:
                os.symlink(inner_source, inner_target)
                continue
            left -= len(inner)
            os.mkdir(inner_target, 0o700)
            pending.append((inner_source, inner_target, inner))


def enter_work_folder(folder, build):
    """Enters the working folder of this process; without one, or if it cannot be created, uses the build."""
    if folder:
        try:
            fill_work_folder(folder, build)
            os.chdir(folder)
            return
        except OSError as error:
            sys.stderr.write(
                f"the worker has no working folder of its own ({error}); it runs in the folder of the build\n"
            )
    os.chdir(build)


def entries_of(folder):
    with os.scandir(folder) as found:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
