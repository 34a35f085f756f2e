"""Files on any file system: local paths stay `pathlib` paths, and URIs are read and written through `pyarrow.fs`.

    place("logs/run1")                 a path of this machine, as `file:///logs/run1` is
    place("s3://bucket/tables")        an object store; `s3a://`, as Spark says it, is the same
    place("hdfs://host/tables")        where libhdfs is installed

A `UriPath` has those methods of `pathlib.Path` that we use, with the same meaning. Credentials and endpoints come from
the environment, as AWS's own tools read it, or from the query of the URI, as `pyarrow.fs` takes it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from basestation.journal.recovery import write_whole as write_local
from basestation.traces.files import open_table
from spark_jobs.session import JobError, one_line

# Google's library takes a minute by default to report missing credentials
RETRY = timedelta(seconds=5)
SCHEMES = ("s3", "s3a", "hdfs", "gs", "abfs", "abfss")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The size and time by which a changed file is noticed, named as in `os.stat_result`."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True, slots=True, order=True)
class UriPath:
    """A file or a folder behind a URI. It can be sent to workers: each opens its own connection."""

    scheme: str
    path: str  # bucket and key, or host and path
    query: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}{'?' if self.query else ''}{self.query}"

    def __truediv__(self, name: str | os.PathLike[str]) -> UriPath:
        return UriPath(self.scheme, f"{self.path.rstrip('/')}/{os.fspath(name)}", self.query)

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> UriPath:
        return UriPath(self.scheme, self.path.rstrip("/").rpartition("/")[0], self.query)

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    def with_name(self, name: str) -> UriPath:
        return self.parent / name

    def relative_to(self, folder: UriPath) -> Path:
        return Path(self.path).relative_to(folder.path)

    def resolve(self) -> UriPath:
        return self

    def _info(self) -> fs.FileInfo:
        try:
            return filesystem(self).get_file_info(_key(self))
        except OSError as error:
            raise JobError(f"{self}: can't be reached: {one_line(error)}") from None

    def exists(self) -> bool:
        return bool(self._info().type != fs.FileType.NotFound)

    def is_dir(self) -> bool:
        return bool(self._info().type == fs.FileType.Directory)

    def is_file(self) -> bool:
        return bool(self._info().type == fs.FileType.File)

    def is_symlink(self) -> bool:
        return False

    def stat(self) -> FileFacts:
        info = self._info()
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(2, os.strerror(2), str(self))
        return FileFacts(info.size or 0, info.mtime_ns or 0)

    def iterdir(self) -> Iterator[UriPath]:
        for info in filesystem(self).get_file_info(fs.FileSelector(_key(self), allow_not_found=True)):
            yield self / info.base_name

    def glob(self, pattern: str) -> Iterator[UriPath]:
        """The paths below this one that match, step by step; `**` is not understood."""
        step, _, rest = pattern.partition("/")
        for inner in sorted(self.iterdir()):
            if fnmatchcase(inner.name, step):
                if rest:
                    yield from inner.glob(rest)
                else:
                    yield inner

    def rglob(self, pattern: str) -> Iterator[UriPath]:
        """The files below this folder, at any depth, whose names match."""
        for info in filesystem(self).get_file_info(fs.FileSelector(_key(self), recursive=True)):
            if info.type == fs.FileType.File and fnmatchcase(info.base_name, pattern):
                yield self / info.path[len(_key(self)) :].lstrip("/")

    def open(self, mode: str = "rb") -> Any:
        where, key = filesystem(self), _key(self)
        return where.open_input_file(key) if mode == "rb" else where.open_output_stream(key)

    def read_bytes(self) -> bytes:
        with self.open() as file:
            return bytes(file.read())

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        """Object stores show an object when it is complete, so a file is complete or missing."""
        with self.open("wb") as file:
            file.write(data)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode())

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        filesystem(self).create_dir(_key(self), recursive=True)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            filesystem(self).delete_file(_key(self))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target: UriPath) -> UriPath:
        """Move a file, or a folder file by file: an object store has no other way."""
        where = filesystem(self)
        if not self.is_dir():
            where.move(_key(self), _key(target))
            return target
        for info in where.get_file_info(fs.FileSelector(_key(self), recursive=True)):
            if info.type == fs.FileType.File:
                inner = info.path[len(_key(self)) :].lstrip("/")
                where.move(info.path, _key(target / inner))
        remove_tree(self)
        return target

    replace = rename


Place = Path | UriPath


def place(text: str | Place) -> Place:
    """The path that a user means. `JobError` for an unknown kind of URI."""
    if not isinstance(text, str):
        return text
    scheme, colons, rest = text.partition("://")
    if not colons:
        return Path(text.removeprefix("file:")) if text.startswith("file:/") else Path(text)
    if scheme == "file":
        told = urlparse(text)
        if told.netloc not in ("", "localhost"):
            raise JobError(f"{text}: {told.netloc} would be a host: a file of this machine is file:///PATH")
        return Path(unquote(told.path))
    if scheme not in SCHEMES:
        raise JobError(f"{text}: {scheme}:// is not a known file system; {', '.join(SCHEMES)}, file are")
    path, _, query = rest.partition("?")
    if scheme != "hdfs" and not path.partition("/")[0]:  # HDFS has a host of its own settings
        raise JobError(f"{text}: no bucket is named; {scheme}://BUCKET/KEY is a place")
    return UriPath("s3" if scheme == "s3a" else scheme, path.rstrip("/"), query)


@lru_cache(maxsize=64)
def _opened(scheme: str, host: str, query: str) -> fs.FileSystem:
    """One connection for each bucket or host of a process."""
    uri = f"{scheme}://{host}{'?' if query else ''}{query}"
    try:
        if scheme == "s3" and not query:
            return _s3_by_environment()
        if scheme == "gs" and not query:
            return fs.GcsFileSystem(retry_time_limit=RETRY)
        return fs.FileSystem.from_uri(uri)[0]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise JobError(f"{uri}: can't be reached: {one_line(error)}") from None


def _s3_by_environment() -> fs.FileSystem:
    """S3 with the settings of AWS's tools. Arrow itself does not read the endpoint's variable."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    told: dict[str, Any] = {"region": region} if region else {}
    if endpoint:
        scheme, _, host = endpoint.partition("://")
        told |= {"endpoint_override": host.rstrip("/"), "scheme": scheme, "region": region or "us-east-1"}
    return fs.S3FileSystem(**told, allow_bucket_creation=False)


def filesystem(path: UriPath) -> fs.FileSystem:
    return _opened(path.scheme, path.path.partition("/")[0], path.query)


def _key(path: UriPath) -> str:
    """The path as its file system says it: with the bucket, without a host."""
    if path.scheme.startswith("abfs"):  # the container may be before an @, after the host, or in its place
        return str(fs.FileSystem.from_uri(str(path))[1]).lstrip("/")
    return path.path if path.scheme in ("s3", "gs") else f"/{path.path.partition('/')[2]}"


def is_local(path: Place) -> bool:
    return isinstance(path, Path)


def listed(folder: Place, pattern: str) -> list[Place]:
    """The paths in a folder that match, in order."""
    found: list[Any] = sorted(folder.glob(pattern))
    return found


def path_of(text: str | Place) -> Path:
    """`place`, for functions that use only the methods which both kinds of path have."""
    return cast(Path, place(text))


def reading(path: Place) -> Any:
    """The argument for Arrow's readers: a local path, which is fastest, or an open file."""
    return path if isinstance(path, Path) else path.open()


@contextmanager
def parquet(path: Place, fault: type[Exception] = JobError) -> Iterator[pq.ParquetFile]:
    """A Parquet file to read from. If it can't be read, `fault` names it."""
    try:
        with open_table(reading(path)) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise fault(f"{path} can't be read, it is damaged or was cut off: {one_line(error)}") from None


def arrow_file(path: Place, mode: str = "rb") -> Any:
    """An open file of Arrow's."""
    return pa.OSFile(str(path), mode) if isinstance(path, Path) else path.open(mode)


def write_whole(path: Place, data: bytes) -> None:
    """Write a file that appears completely or not at all."""
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_local(path, data)
    else:
        path.write_bytes(data)


def remove_tree(path: Place) -> None:
    """Remove a folder with its content, if it exists."""
    if isinstance(path, Path):
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists():
        filesystem(path).delete_dir(_key(path))
