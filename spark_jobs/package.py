"""Our packages as one zip, which Spark gives to its workers."""

from __future__ import annotations

import zipfile
from pathlib import Path

PACKAGES = ("basestation", "packet_formats", "spark_jobs")
SUFFIXES = (".py", ".json", ".properties", ".typed", ".toml")
ZIP = "causeway-jobs.zip"
THEN = (1980, 1, 1, 0, 0, 0)  # the same sources make the same zip


def sources(root: Path) -> list[Path]:
    found = [path for package in PACKAGES for path in (root / package).rglob("*") if path.suffix in SUFFIXES]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def write_zip(root: Path, path: Path) -> int:
    """Write all of our packages, and return the number of files."""
    files = sources(root)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            entry = zipfile.ZipInfo(str(file.relative_to(root)), THEN)
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return len(files)
