"""
Makes a virtual environment of this Python with links to the admitted packages and to what they require; no other package of the
host is on its path. What exists is brought up to date. Every Python version can parse this file. Prints JSON.

Arguments: folders, of which the first that can be written to takes it; "--"; names of packages.
"""
import hashlib
import json
import os
import re
import stat
import sys
import sysconfig


def main(arguments):
    at = arguments.index("--")
    parents, names = arguments[:at], arguments[at + 1 :]
    version = sys.version.split()[0]
    if sys.version_info < (3, 8):
        return {"version": version, "bin": "", "isForEveryone": False, "problem": ""}
    # Every user reads it: a worker may have a user id of its own.
    os.umask(0o022)
    library = os.path.basename(sysconfig.get_path("stdlib"))
    program = base_program()
    links = links_of(names)
    key = hashlib.sha256(json.dumps([program, library, sys.path]).encode()).hexdigest()[:16]
    problems = []
    for parent in parents:
        try:
            folder = make(os.path.join(parent, key), program, library, version, links)
        except OSError as error:
            problems.append(str(error))
            continue
        read = [program, os.__file__] + sorted(links.values())
        return {
            "version": version,
            "bin": os.path.join(folder, "bin"),
            "isForEveryone": all(is_for_everyone(path) for path in read),
            "problem": "",
        }
    return {"version": version, "bin": "", "isForEveryone": False, "problem": "; ".join(problems)}


def base_program():
    """Returns the program of this Python outside of any virtual environment."""
    name = "python%d.%d" % sys.version_info[:2]
    found = os.path.join(sys.base_exec_prefix, "bin", name)
    return found if os.path.exists(found) else os.path.realpath(sys.executable)


def make(folder, program, library, version, links):
    packages = os.path.join(folder, "lib", library, "site-packages")
    os.makedirs(packages, exist_ok=True)
    os.makedirs(os.path.join(folder, "bin"), exist_ok=True)
    # Systems whose compiled packages have a folder of their own.
    link("lib", os.path.join(folder, "lib64"))
    for name in {"python3", "python", os.path.basename(program)}:
        link(program, os.path.join(folder, "bin", name))
    for name in set(os.listdir(packages)) - set(links):
        if os.path.islink(os.path.join(packages, name)):
            os.remove(os.path.join(packages, name))
    for name, target in links.items():
        link(target, os.path.join(packages, name))
    # Last: without it, a Python of bin/ is that of the host.
    text = "home = %s\ninclude-system-site-packages = false\nversion = %s\n" % (os.path.dirname(program), version)
    path = os.path.join(folder, "pyvenv.cfg")
    if content_of(path) != text:
        draft = "%s.%d" % (path, os.getpid())
        with open(draft, "w") as file:
            file.write(text)
        os.replace(draft, path)
    return folder


def content_of(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return None


def link(target, path):
    """Links by a rename, so that another agent that does the same sees the old link or the new one."""
    if os.path.islink(path) and os.readlink(path) == target:
        return
    draft = "%s.%d" % (path, os.getpid())
    os.symlink(target, draft)
    os.replace(draft, path)


def links_of(names):
    """Returns the entries of packages and of all that they require, if they are here: path by name."""
    if not any([may_hold(path, names) for path in sys.path]):
        return {}
    from importlib.metadata import PackageNotFoundError, distribution

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
            links.setdefault(os.path.basename(path), path)
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
