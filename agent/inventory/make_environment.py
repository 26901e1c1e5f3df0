"""
Makes a virtual environment of this Python with links to the admitted packages and to what they require; no other package of the
host is on its path. What exists is brought up to date. Every Python version can parse this file. Prints JSON.

Arguments: "--unless-chosen", to make none of a Python that somebody chose for a project; folders, of which the first that can be
written to takes it; "--"; names of packages.
"""
import hashlib
import json
import os
import re
import stat
import sys
import sysconfig
import time

CACHE = "__pycache__" + os.sep
UNLESS_CHOSEN = "--unless-chosen"
# Each reading of the inventory marks the environment as used.
UNUSED_SECONDS = 86400
# Of former Pythons, which an older agent or a rollback may want again.
KEPT_UNUSED = 4
# The agent waits for its environment.
REMOVED_AT_ONCE = 16
REMOVED = "removed-"
# What somebody else has in the folder stays.
OWN_NAME = re.compile("(%s)?[0-9a-f]{16}" % REMOVED)


def main(arguments):
    version = sys.version.split()[0]
    if arguments[0] == UNLESS_CHOSEN:
        if is_chosen():
            return result(version)
        arguments = arguments[1:]
    at = arguments.index("--")
    parents, names = arguments[:at], arguments[at + 1 :]
    if sys.version_info < (3, 8):
        return result(version)
    # Every user reads it: a worker may have a user id of its own.
    os.umask(0o022)
    library = os.path.basename(sysconfig.get_path("stdlib"))
    program = base_program()
    links = links_of(names)
    # Agents of other versions may admit other packages.
    key = hashlib.sha256(json.dumps([program, library, sys.path, names]).encode()).hexdigest()[:16]
    problems = []
    for parent in parents:
        try:
            folder = make(os.path.join(parent, key), program, library, version, links)
        except OSError as error:
            problems.append(str(error))
            continue
        remove_unused(parent, key)
        read = [program, os.__file__] + sorted(target for name, target in links.items() if not name.startswith(CACHE))
        return result(version, os.path.join(folder, "bin"), all(is_for_everyone(path) for path in read))
    return result(version, problem="; ".join(problems))


def result(version, programs="", for_everyone=False, problem=""):
    return {"version": version, "bin": programs, "isForEveryone": for_everyone, "problem": problem}


def is_chosen():
    """Whether somebody chose this Python for a project: a virtual environment, or one of conda that is not its base."""
    if sys.prefix != sys.base_prefix:
        return True
    return os.environ.get("CONDA_DEFAULT_ENV", "base") != "base" and os.environ.get("CONDA_PREFIX") == sys.prefix


def base_program():
    """Returns the program of this Python outside of any virtual environment."""
    name = "python%d.%d" % sys.version_info[:2]
    found = os.path.join(sys.base_exec_prefix, "bin", name)
    return found if os.path.exists(found) else os.path.realpath(sys.executable)


def make(folder, program, library, version, links):
    packages = os.path.join(folder, "lib", library, "site-packages")
    drafts = os.path.join(folder, "drafts")
    for path in (os.path.join(packages, CACHE), os.path.join(folder, "bin"), drafts):
        os.makedirs(path, exist_ok=True)
    # Systems whose compiled packages have a folder of their own.
    link("lib", os.path.join(folder, "lib64"), drafts)
    for name in {"python3", "python", os.path.basename(program)}:
        link(program, os.path.join(folder, "bin", name), drafts)
    for name in set(os.listdir(packages)) - set(links):
        if os.path.islink(os.path.join(packages, name)):
            remove(os.path.join(packages, name))
    for name, target in links.items():
        link(target, os.path.join(packages, name), drafts)
    # Last: without it, a Python of bin/ is that of the host.
    text = "home = %s\ninclude-system-site-packages = false\nversion = %s\n" % (os.path.dirname(program), version)
    path = os.path.join(folder, "pyvenv.cfg")
    if content_of(path) != text:
        draft = os.path.join(drafts, os.urandom(8).hex())
        with open(draft, "w") as file:
            file.write(text)
        os.replace(draft, path)
    mark_used(path)
    return folder


def mark_used(path):
    try:
        os.utime(path)
    except OSError:
        pass  # of another user, or read-only: then this user removes none there


def remove_unused(parent, own):
    """Removes environments of former Pythons, and what a killed process left of a removal. Another agent may do the same."""
    try:
        names = [name for name in os.listdir(parent) if name != own and OWN_NAME.fullmatch(name)]
        unused = sorted((used_at(os.path.join(parent, name)), name) for name in names)
        limit = time.time() - UNUSED_SECONDS
        unused = [name for used, name in unused if used < limit]
        for name in unused[: max(0, len(unused) - KEPT_UNUSED)][:REMOVED_AT_ONCE]:
            remove_environment(parent, name, limit)
    except OSError:
        pass  # the next reading of the inventory tries again


def used_at(folder):
    for path in (os.path.join(folder, "pyvenv.cfg"), folder):
        try:
            return os.stat(path).st_mtime
        except OSError:
            pass  # of a removal that another agent finishes
    return 0


def remove_environment(parent, name, limit):
    folder = os.path.join(parent, name)
    hidden = os.path.join(parent, REMOVED + os.urandom(8).hex())
    os.rename(folder, hidden)
    if used_at(hidden) >= limit and not os.path.exists(folder):
        # An agent began to use it at this moment.
        os.rename(hidden, folder)
        return
    import shutil

    shutil.rmtree(hidden, ignore_errors=True)


def content_of(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def link(target, path, drafts):
    """
    Links by a rename, so that another agent that does the same sees the old link or the new one. Drafts have a folder of their own: in
    that of the packages the other agent would remove them.
    """
    try:
        if os.readlink(path) == target:
            return
    except OSError:
        pass  # none yet
    # Agents in containers have the same process ids.
    draft = os.path.join(drafts, os.urandom(8).hex())
    os.symlink(target, draft)
    try:
        os.replace(draft, path)
    except OSError:
        # A folder is in its place, which a worker at level `none` can make. Each reading of the inventory tries again.
        remove(draft)
        raise


def remove(path):
    try:
        os.remove(path)
    except FileNotFoundError:
        pass  # another agent was faster


def links_of(names):
    """Returns the entries of packages and of all that they require, if they are here: path by name."""
    if not any([may_hold(path, names) for path in sys.path]):
        return {}
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import cache_from_source

    links, seen, waiting = {}, set(), list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        for path in entries_of(found, name):
            if links.setdefault(os.path.basename(path), path) == path and path.endswith(".py"):
                # Workers cannot store it: each would compile the module anew.
                compiled = cache_from_source(path)
                if os.path.exists(compiled):
                    links[CACHE + os.path.basename(compiled)] = compiled
        # A marker may exclude one that is here: it does no harm.
        for required in found.requires or []:
            match = re.match(r"[A-Za-z0-9._-]+", required)
            if match and "extra ==" not in required:
                waiting.append(match.group())
    return links


def may_hold(path, names):
    """The reader of packages takes five times as long to load as Python itself."""
    try:
        entries = os.listdir(path or ".")
    except OSError:
        return False
    return any(entry.lower().startswith(tuple(names)) for entry in entries)


def entries_of(found, name):
    """Returns what a package has at the top of its folder, its description included."""
    folder = str(found.locate_file(""))
    described = str(getattr(found, "_path", ""))
    tops = {str(file).split("/")[0] for file in found.files or []} if described.endswith(".dist-info") else set()
    if tops - {os.path.basename(described)} == set():
        listed = (found.read_text("top_level.txt") or "").split() or [name.replace("-", "_")]
        tops |= {each + ending for each in listed for ending in ("", ".py")}
    if described:
        tops.add(os.path.basename(described))
    paths = [os.path.join(folder, top) for top in tops if top not in ("", "..", "__pycache__")]
    return [path for path in paths if os.path.exists(path)]


def is_for_everyone(path):
    """Whether every user can read it, and pass its parents."""
    path = os.path.realpath(path)
    facts = os.stat(path)
    if not facts.st_mode & stat.S_IROTH:
        return False
    while True:
        parent = os.path.dirname(path)
        if not os.stat(parent).st_mode & stat.S_IXOTH:
            return False
        if parent == path:
            return True
        path = parent


sys.stdout.write(json.dumps(main(sys.argv[1:])))
