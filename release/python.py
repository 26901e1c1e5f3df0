"""Writes the Python wheel and the source archive: ``python3 python.py SOURCE TARGET SECONDS``.

SOURCE is a folder with pyproject.toml and its packages, TARGET the folder for the two files, SECONDS the time of all
files in them. Wheels are zip archives of a documented form, so that no build backend is fetched, and the same sources
give the same bytes.
"""

import base64
import gzip
import hashlib
import io
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Dict, List, Tuple

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit("a release needs Python 3.11 or newer")


def metadata(source: Path, project: Dict) -> bytes:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
        "License-File: LICENSE",
        "",
        (source / project["readme"]).read_text("utf-8"),
    ]
    assert project["dependencies"] == [], "dependencies would need lines here"
    return "\n".join(lines).encode()


def files_of(source: Path, packages: List[str]) -> List[Tuple[str, bytes]]:
    found = []
    for package in packages:
        for path in sorted((source / package).iterdir()):
            if path.suffix in (".py", ".tgz") or path.name == "py.typed":
                found.append((f"{package}/{path.name}", path.read_bytes()))
    return found


def write_wheel(target: Path, files: List[Tuple[str, bytes]], moment: time.struct_time) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content in files:
            entry = zipfile.ZipInfo(name, date_time=moment[:6])
            entry.external_attr = 0o100644 << 16
            # What is compressed already stays as it is.
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".tgz") else zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)


def record(files: List[Tuple[str, bytes]], name: str) -> bytes:
    lines = []
    for path, content in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    return ("\n".join([*lines, f"{name},,"]) + "\n").encode()


def write_source_archive(target: Path, files: List[Tuple[str, bytes]], seconds: int) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), seconds, 0o644
            archive.addfile(entry, io.BytesIO(content))
    with target.open("wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=seconds) as packed:
        packed.write(buffer.getvalue())


def main(source: Path, target: Path, seconds: int) -> None:
    with (source / "pyproject.toml").open("rb") as file:
        config = tomllib.load(file)
    project = config["project"]
    stem = f"{project['name']}-{project['version']}"
    files = files_of(source, config["tool"]["setuptools"]["packages"])
    about = metadata(source, project)
    info = f"{stem}.dist-info"
    scripts = "".join(f"{name} = {entry}\n" for name, entry in project["scripts"].items())
    wheel = [
        *files,
        (f"{info}/METADATA", about),
        (f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: capstan\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        (f"{info}/entry_points.txt", f"[console_scripts]\n{scripts}".encode()),
        (f"{info}/top_level.txt", "".join(f"{name}\n" for name in config["tool"]["setuptools"]["packages"]).encode()),
        (f"{info}/licenses/LICENSE", (source / "LICENSE").read_bytes()),
    ]
    name = f"{info}/RECORD"
    write_wheel(target / f"{stem}-py3-none-any.whl", [*wheel, (name, record(wheel, name))], time.gmtime(seconds))
    loose = [(each, (source / each).read_bytes()) for each in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")]
    archive = [(f"{stem}/{each}", content) for each, content in [("PKG-INFO", about), *loose, *files]]
    write_source_archive(target / f"{stem}.tar.gz", archive, seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
