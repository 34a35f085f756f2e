"""Any file system: a place behind a URI behaves as a path of this machine does."""

import pickle
from pathlib import Path

import pytest

from spark_jobs.session import JobError, one_line, prepare
from spark_jobs.storage import UriPath, _key, place, remove_tree, write_whole

PLACES = ["local", "file", "s3"]


@pytest.fixture(params=PLACES)
def root(request, tmp_path, s3):
    return place({"local": str(tmp_path), "file": tmp_path.as_uri(), "s3": f"{s3}/root"}[request.param])


def test_what_is_written_is_read_and_listed_and_removed(root):
    prepare(root / "out")
    write_whole(root / "out" / "a" / "one.txt", b"1")
    write_whole(root / "out" / "a" / "two.csv", b"22")
    assert (root / "out" / "a").is_dir()
    assert not (root / "nothing").exists()
    assert [path.name for path in sorted((root / "out").glob("*/*.txt"))] == ["one.txt"]
    assert sorted(path.name for path in (root / "out" / "a").iterdir()) == ["one.txt", "two.csv"]
    assert (root / "out" / "a" / "two.csv").stat().st_size == 2
    (root / "out" / "a").rename(root / "out" / "b")
    assert (root / "out" / "b" / "one.txt").read_bytes() == b"1"
    assert not (root / "out" / "a" / "one.txt").exists()
    (root / "out" / "b" / "one.txt").unlink()
    (root / "out" / "b" / "one.txt").unlink(missing_ok=True)
    assert not (root / "out" / "b" / "one.txt").exists()
    remove_tree(root / "out")
    assert not (root / "out" / "b" / "two.csv").exists()


def test_a_place_can_be_sent_to_a_worker(root):
    write_whole(root / "x", b"sent")
    assert pickle.loads(pickle.dumps(root / "x")).read_bytes() == b"sent"


def test_local_paths_stay_paths():
    assert place("a/b") == Path("a/b")
    assert place("file:///a/b%20c") == Path("/a/b c")
    assert place("file:/a/b") == Path("/a/b")


def test_spark_and_arrow_name_s3_differently():
    assert place("s3a://bucket/t") == place("s3://bucket/t") == UriPath("s3", "bucket/t")
    assert str(place("s3://bucket/t?region=x") / "m") == "s3://bucket/t/m?region=x"


def test_an_unknown_file_system_is_refused_by_name():
    with pytest.raises(JobError, match="ftp:// is not a known file system"):
        place("ftp://host/logs")


@pytest.mark.parametrize("uri", ["s3://", "s3:///key", "gs:///key", "s3a://?region=x"])
def test_a_uri_without_a_bucket_is_refused(uri):
    with pytest.raises(JobError, match="no bucket is named"):
        place(uri)


def test_azure_names_a_container_and_then_a_path():
    assert _key(place("abfs://c@a.dfs.core.windows.net/x/y")) == "c/x/y"
    assert _key(place("abfs://a.dfs.core.windows.net/c/x") / "y") == "c/x/y"


def test_a_file_of_another_host_is_refused():
    assert place("file://localhost/tmp/a%20b") == Path("/tmp/a b")
    with pytest.raises(JobError, match="tmp would be a host"):
        place("file://tmp/x")


def test_a_missing_bucket_is_reported_before_the_work(s3):
    with pytest.raises(JobError, match="--tables s3://nobody/tables: nothing can be written there"):
        prepare(place("s3://nobody/tables"), "--tables")


def test_a_long_message_of_a_library_is_cut_to_its_first_sentence():
    assert one_line(OSError("no\n  host. Ask again")) == "no host. Ask again"
    assert one_line(OSError("no host. " + "at java.base " * 100)) == "no host"
    assert len(one_line(OSError("x" * 15_000))) == 400
