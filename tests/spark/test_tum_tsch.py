"""A real recording of another network, read in place; and what is wrong with lines that are none."""

import gzip
import json

import pytest

from examples.tum_tsch import Packet, held, main, out_of_order, read

LINE = [2, 83, 1, 0, 0, 0, 66, 1, 0, 0, 0, 162, 1, 0, 3, 3, 26, 78, 2, 1, 26, 80, *[0] * 16]


def line(values=LINE):
    return f"{json.dumps(values)}\t0:00:00.036179\n"


def test_the_recording_of_tum(root, capsys):
    path = root.parent / "shared/data/tum_tsch/raw_tdma_4-1-high_load.log.gz"
    if not path.exists():
        pytest.skip("the recordings in ../shared/data are not on this machine")
    packets, faults = read(path)
    assert (len(packets), faults) == (6481, [])
    assert out_of_order(packets) == 577
    assert out_of_order(held(packets, 0)) == 577  # no wait, no gain
    assert out_of_order(held(packets, 100)) == 0
    assert 0 < out_of_order(held(packets, 40)) < 100
    assert main([str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["out_of_order"] == 577


def test_a_line_is_a_packet_with_its_way(tmp_path):
    path = tmp_path / "raw.log"
    path.write_text(line())
    assert read(path) == ([Packet(3, 162 + 256, 66 + 256, 83 + 256, (3, 2))], [])
    path.write_bytes(gzip.compress(line().encode()))
    assert read(path)[0][0].source == 3


def test_lines_that_are_none_are_named_and_the_rest_is_read(tmp_path, capsys):
    path = tmp_path / "raw.log"
    path.write_text(
        line() + "[1, 2]\tx\n" + "nonsense\n" + line([300, *LINE[1:]]) + line([*LINE[:14], *[0] * 24])
    )
    packets, faults = read(path)
    assert len(packets) == 1
    assert [fault.partition(": line ")[2][0] for fault in faults] == ["2", "3", "4", "5"]
    assert main([str(path), "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["packets"] == 1
    assert "it names no sender" in told.err
    assert (tmp_path / "out/packets.parquet").exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", gzip.compress(b"x" * 999, mtime=0)[:20]])
def test_no_recording_at_all(tmp_path, capsys, content):
    path = tmp_path / "raw.log"
    path.write_bytes(content)
    assert main([str(path)]) == 1
    assert str(path) in capsys.readouterr().err
    assert main([str(tmp_path / "nothing")]) == 1


def test_an_order_that_a_wait_mends():
    late = [Packet(1, 2, 12, 20, (1,)), Packet(1, 1, 10, 25, (1,)), Packet(2, 1, 11, 26, (2,))]
    assert out_of_order(late) == 1
    assert [packet.sent for packet in held(late, 100)] == [10, 11, 12]
