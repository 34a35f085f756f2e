"""Packages what a cluster needs besides Spark: our code as a zip, an environment for its Python workers, and the
settings that name both.

    spark-submit --properties-file dist/causeway.conf spark_jobs/run.py JOB ...

The environment holds the libraries that the jobs import, and not Python itself: its `bin/python` links to the Python
that made it, which every machine must have at the same place and in the same version.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from spark_jobs.package import ZIP, write_zip
from spark_jobs.session import ROOT, JobError, note

LIBRARIES = ("click", "construct", "duckdb", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "rich")
ENVIRONMENT, SETTINGS = "causeway-env.tar.gz", "causeway.conf"


def needed(names: Iterable[str]) -> dict[str, metadata.Distribution]:
    """These libraries, and all installed libraries that they need."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if name in LIBRARIES:
                raise JobError(f"{name} is not installed here; make setup brings it") from None
            continue  # of another system, or not asked for
        waiting += _requirements(found[name])
    return found


def _requirements(library: metadata.Distribution) -> Iterator[str]:
    for text in library.requires or []:
        name = re.match(r"[A-Za-z0-9._-]+", text)
        if name and "extra ==" not in text:
            yield re.sub(r"[._-]+", "-", name[0]).lower()


def write_environment(path: Path) -> list[str]:
    """Write the libraries as an environment of this Python, and return their names."""
    libraries = needed(LIBRARIES)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = f"lib/python{version}/site-packages"
    python = Path(sys.base_prefix) / "bin" / f"python{version}"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        settings = f"home = {python.parent}\ninclude-system-site-packages = false\n".encode()
        entry = tarfile.TarInfo("pyvenv.cfg")
        entry.size = len(settings)
        archive.addfile(entry, io.BytesIO(settings))
        link = tarfile.TarInfo("bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, str(python)
        archive.addfile(link)
        for library in libraries.values():
            for file in library.files or []:
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    archive.add(str(library.locate_file(file)), f"{place}/{file}")
    return sorted(libraries)


def settings(out: Path) -> dict[str, str]:
    """The settings for `spark-submit`. The driver runs on this Python, as the archive is not unpacked for it."""
    return {
        "spark.submit.pyFiles": str(out / ZIP),
        "spark.archives": f"{out / ENVIRONMENT}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": sys.executable,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.cluster_package", description="Pack for a cluster."
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder of the archives (dist)")
    out: Path = parser.parse_args(arguments).out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        count = write_zip(ROOT, out / ZIP)
        libraries = write_environment(out / ENVIRONMENT)
        lines = [f"{key} {value}\n" for key, value in settings(out).items()]
        (out / SETTINGS).write_text("".join(lines))
    except JobError as error:
        note(str(error))
        return 1
    print(f"{out / ZIP}: {count} files")
    print(f"{out / ENVIRONMENT}: {', '.join(libraries)}")
    print(f"{out / SETTINGS}: for spark-submit --properties-file")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
