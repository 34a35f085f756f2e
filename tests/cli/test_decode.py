"""`basestation decode`, on made-up captures and on real ones."""

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from basestation.cli.decode import command
from packet_formats import captures
from packet_formats.deployment import load
from packet_formats.framing import encode_frame
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.phrases import many
from packet_formats.records import Beacon
from packet_formats.tinyos import Ack, ActiveMessage, encode_packet

SEEN = "7e 42 ff ff 04 7d 5d 04 04 00 01 00 3d 0e 7e"
LISTEN = "7E 00 13 11 0A 00 00 00 00 00 00 61 EB A8 06" + " 00" * 19 + " 01 00 "


def run(*arguments: str, stdin: str | bytes = b"") -> Result:
    return CliRunner().invoke(command, list(arguments), input=stdin)


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def decoded(raw: bytes | str, *arguments: str) -> list[dict[str, Any]]:
    result = run("--json", *arguments, stdin=raw)
    assert result.exit_code == 0, result.output
    return objects(result)


@pytest.mark.parametrize("raw", [bytes.fromhex(SEEN), SEEN, SEEN.replace(" ", ""), SEEN.upper() + "\r\n"])
def test_binary_and_hex_are_told_apart(raw: bytes | str) -> None:
    (plain,) = decoded(raw)
    assert {key: plain[key] for key in ("type", "group", "length", "payload", "dest", "tinyos")} == {
        "type": 4,
        "group": 0x7D,
        "length": 4,
        "payload": "04000100",
        "dest": 0xFFFF,
        "tinyos": 1,
    }


def test_hex_frames_may_break_over_lines() -> None:
    assert len(decoded(SEEN[:17] + "\n" + SEEN[17:] + "\n# a remark\n" + SEEN)) == 2


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (LISTEN, (1, None, 0x13, 0x11, "00000000000061eba806")),
        (LISTEN[: 34 * 3], (1, None, 0x13, 0x11, "00000000000061eba806")),
        (LISTEN[: 34 * 3] + "00 00", (1, None, 0x13, 0x11, "00000000000061eba806")),
        ("FF FF 0A 7D 02 01 02", (1, None, 0x0A, 0x7D, "0102")),
        ("00 FF FF 00 01 02 22 06 00 01", (2, 1, 6, 0x22, "0001")),
    ],
)
def test_shapes_of_listen_lines(line: str, expected: tuple[object, ...]) -> None:
    for plain in decoded(f"{line}\n{line}"):
        assert tuple(plain[key] for key in ("tinyos", "source", "type", "group", "payload")) == expected


def test_a_cut_off_line_does_not_pass_for_a_shorter_message() -> None:
    """The 15 bytes that are left hold the whole message; but so might 15 bytes of two of them."""
    result = run("--json", stdin=f"{LISTEN}\n{LISTEN}\n{LISTEN[: 15 * 3]}\n")
    assert len(objects(result)) == 2
    assert "line 3: truncated, skipped: 15 bytes instead of 36" in result.stderr


def test_bare_lines_may_differ_in_length() -> None:
    found = decoded("FF FF 0A 7D 02 01 02\nFF FF 0A 7D 1D" + " 07" * 29 + "\nFF FF 0A 7D 00\n")
    assert [plain["length"] for plain in found] == [2, 29, 0]


def test_acks_and_packets_that_want_one() -> None:
    line = encode_frame(encode_packet(Ack(2, 5)))
    line += encode_frame(encode_packet(ActiveMessage(1, 1, 2, 3, b"\0", None, "data-ack", 9)))
    ack, data = decoded(line)
    assert (ack["kind"], ack["token"], ack["payload"]) == ("ack", 5, "")
    assert (data["kind"], data["token"], data["payload"]) == ("data-ack", 9, "00")


def test_what_is_dropped_from_a_stream_is_reported() -> None:
    bad = bytearray(bytes.fromhex(SEEN))
    bad[4] ^= 1
    result = run("--json", stdin=b"\0\1" + bytes(bad) + bytes.fromhex(SEEN) + b"\x45\x00")
    assert (result.exit_code, len(objects(result))) == (0, 1)
    assert "bytes before the first flag: 1 time, 2 bytes" in result.stderr
    assert "bad CRC: 1 time, 13 bytes" in result.stderr
    assert "a frame that did not end: 1 time, 2 bytes" in result.stderr


def test_truncated_lines_are_reported_and_passed_over() -> None:
    damaged = f"{LISTEN}\n{LISTEN[:30]}\n7E 00 1\n00 00\n{LISTEN}\nsf@localhost:9001\n"
    result = run("--json", stdin=damaged + f"{LISTEN}\n" * 3)
    assert (result.exit_code, [plain["line"] for plain in objects(result)]) == (0, [1, 5, 7, 8, 9])
    assert "line 2: truncated, skipped: 10 bytes instead of 36" in result.stderr
    assert "line 3: truncated within a byte" in result.stderr
    assert "line 4: truncated, skipped: 2 bytes instead of 36" in result.stderr
    assert "line 6: not hex, skipped: 'sf@localhost:9001'" in result.stderr


@pytest.mark.parametrize(
    ("line", "whole", "rest"),
    [
        (LISTEN + LISTEN, 2, ""),
        (LISTEN + LISTEN[:30], 1, "10 bytes"),
        (LISTEN[:30] + LISTEN, 1, "10 bytes"),
        (LISTEN + LISTEN[:30] + LISTEN, 2, "10 bytes"),
    ],
)
def test_packets_are_recovered_from_lines_that_ran_together(line: str, whole: int, rest: str) -> None:
    result = run("--json", stdin=f"{LISTEN}\n{line}\n")
    found = objects(result)
    assert len(found) == 1 + whole
    assert {plain["payload"] for plain in found} == {"00000000000061eba806"}
    assert (
        f"line 2: {len(bytes.fromhex(line))} bytes run together: {many(whole, 'whole packet')} recovered"
        in result.stderr
    )
    assert (rest in result.stderr) if rest else ("skipped" not in result.stderr)


def buffer(payload: bytes) -> bytes:
    return b"\x7e\x00\x13\x11" + bytes([len(payload)]) + payload.ljust(29, b"\0") + b"\1\0"


@given(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 36), st.booleans()), max_size=6),
    st.sampled_from([b"\1\0", b"\0\1", b"\0\0"]),
)
def test_what_is_recovered_was_sent(pieces: list[tuple[int, int, bool]], tail: bytes) -> None:
    """Clean lines, some cut off or run together anywhere, give only packets that were sent."""
    sent = [clock.to_bytes(4, "little") + tail * 3 for clock, _, _ in pieces]
    text = (buffer(bytes(10)).hex() + "\n") * 7
    for payload, (_, kept, joined) in zip(sent, pieces, strict=True):
        text += buffer(payload)[:kept].hex() + ("" if joined else "\n")
    found = [
        item for item in captures.read(text.encode(), "listen") if isinstance(item, captures.CapturedPacket)
    ]
    payloads = [item.packet.data for item in found if isinstance(item.packet, ActiveMessage)]
    assert payloads[:7] == [bytes(10)] * 7
    assert set(payloads[7:]) <= set(sent)
    assert len(payloads) - 7 <= len([kept for _, kept, _ in pieces if kept >= 15])
    assert set(payloads) >= {p for at, p in enumerate(sent) if _stands_alone(pieces, at)}


def _stands_alone(pieces: list[tuple[int, int, bool]], at: int) -> bool:
    """Whole, on a line of its own."""
    return pieces[at][1] == 36 and not pieces[at][2] and (at == 0 or not pieces[at - 1][2])


def test_bytes_that_look_like_an_end_mark_do_not_cost_the_next_packet() -> None:
    """36 bytes after the cut-off first header the second packet happens to hold 01 00."""
    first, second = buffer(bytes(10)), buffer(bytes(9) + b"\1")
    joined = first[:20] + second
    assert joined[34:36] == b"\1\0"
    found = decoded(f"{first.hex()}\n{joined.hex()}\n")
    assert [plain["payload"] for plain in found] == [bytes(10).hex(), (bytes(9) + b"\1").hex()]


def test_bare_packets_that_ran_together_must_fill_the_line() -> None:
    bare = "FF FF 0A 7D 02 01 02 "
    assert len(decoded(f"{bare}\n{bare}{bare}{bare}\n")) == 4
    result = run("--json", stdin=f"{bare}\n{bare}{bare}FF\n")
    assert len(objects(result)) == 1
    assert "line 2: skipped: 15 bytes, not a message like the capture's others" in result.stderr


def test_nothing_is_recovered_without_a_clean_line_to_know_it_by() -> None:
    result = run("--json", "--format", "listen", stdin=LISTEN + LISTEN)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nothing could be decoded as listen" in result.stderr


@pytest.mark.parametrize("type_", [0x04, 0x0A])  # of 15 bytes, the second would do as a Listen line
def test_a_hex_frame_with_a_bad_crc_is_called_that(type_: int) -> None:
    good = encode_frame(encode_packet(ActiveMessage(1, 0xFFFF, 0x7D, type_, b"\4\0\1\0")))
    bad = good[:-2] + bytes([good[-2] ^ 1]) + good[-1:]
    result = run("--json", stdin=bad.hex() + "\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "line 1: bad CRC: 13 bytes skipped" in result.stderr
    result = run("--json", stdin=f"{good.hex()}\n\n{bad.hex()}\n{good.hex()}\n{bad.hex()}\n{bad.hex()}\n")
    assert (result.exit_code, [plain["line"] for plain in objects(result)]) == (0, [1, 4])
    assert "line 3: bad CRC" in result.stderr
    assert "2 packets (hex), 3 faults reported" in result.stderr


def test_a_listen_line_to_the_serial_address_may_end_in_a_flag_byte() -> None:
    assert len(decoded("7E 00 0A 7D 02 01 7E\n" * 2)) == 2


def test_a_file_of_other_digits_is_no_capture() -> None:
    numbers = "\n".join(str(number) for number in [*range(132214724, 10**10, 204804771), 2122894100])
    assert any(
        isinstance(item, captures.CapturedPacket) for item in captures.read(numbers.encode(), "listen")
    )
    result = run("--json", stdin=numbers)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert "lines can't be read as listen; line 1: " in line
    assert run("--json", "--format", "listen", stdin=numbers).exit_code == 0


def test_packets_of_a_log_are_decoded_without_framing() -> None:
    """`raw` of `log convert --to ndjson`: from the type byte on, without flags and CRC."""
    one = encode_packet(ActiveMessage(1, 0xFFFF, 0x7D, 4, bytes(4))).hex()
    two = encode_packet(ActiveMessage(2, 0xFFFF, 0x22, 6, bytes(7), source=3)).hex()
    found = decoded(f"{one}\n{two}\n")
    assert [(packet["tinyos"], packet["length"], packet["line"]) for packet in found] == [
        (1, 4, 1),
        (2, 7, 2),
    ]
    assert decoded(f"{one}\n{two}\n", "--format", "packets") == found
    cut = run("--format", "packets", stdin=f"{one}\n{two[:-2]}\n")
    assert (cut.exit_code, "line 2" in cut.stderr) == (0, True)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"\x89CWJ\r\n\x1a\n\2\0", "a part of a log: give its folder to `basestation replay`"),
        (bytes.fromhex("d4c3b2a102000400"), "a pcap file, which Wireshark and tshark read"),
        (b'{"number": 0, "raw": "42"}\n', "JSON lines"),
    ],
)
def test_what_other_commands_write_is_named(raw: bytes, said: str) -> None:
    done = run(stdin=raw)
    assert (done.exit_code, said in done.stderr, "log convert" in done.stderr) == (1, True, True)


def test_a_folder_is_taken_for_a_log(tmp_path: Path) -> None:
    done = run(str(tmp_path))
    assert (done.exit_code, "is it a log?" in done.stderr) == (1, True)


def test_many_faults_of_a_kind_are_summed_up() -> None:
    result = run("--json", stdin=f"{LISTEN}\n" * 12 + f"{LISTEN[:30]}\n" * 9 + "boot\n")
    assert result.stderr.count("truncated, skipped") == 3
    assert "6 more faults: truncated\n" in result.stderr
    assert "12 packets (listen), 10 faults reported" in result.stderr


@pytest.mark.parametrize("raw", [b"", b"\n\n", b"hello world\n", b"\0\1\2\3", b"\x7e\x7e\x7e"])
def test_nothing_to_decode_is_a_fault(raw: bytes) -> None:
    result = run("--json", stdin=raw)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nothing could be decoded" in result.stderr


def test_files_gzipped_or_missing_or_damaged(tmp_path: Path) -> None:
    text = (LISTEN + "\n").encode() * 2000
    path = tmp_path / "capture.gz"
    path.write_bytes(gzip.compress(text))
    assert len(objects(run("--json", str(path)))) == 2000
    path.write_bytes(gzip.compress(text) + gzip.compress(text))
    assert len(objects(run("--json", str(path)))) == 4000
    path.write_bytes(gzip.compress(text)[:-12])
    result = run("--json", str(path))
    assert result.exit_code == 0
    assert "the gzip file was cut off" in result.stderr
    path.write_bytes(b"\x1f\x8b damaged")
    result = run("--json", str(path))
    assert (result.exit_code, "damaged gzip file" in result.stderr) == (1, True)
    result = run(str(tmp_path / "absent"))
    assert (result.exit_code, "absent: No such file" in result.stderr) == (1, True)
    assert run("--format", "morse").exit_code == 2


def test_a_deployment_adds_what_the_message_says(root: Path) -> None:
    path = root / "examples" / "paper.toml"
    layout = layout_of(load(path))
    data = Data(3, 7, (1, 2, *range(11)), boot=5, data=b"abcd")
    stranger = ActiveMessage(1, 0xFFFF, 0x7D, 4, b"\1")
    packets = [
        encode_message(data, layout),
        encode_message(Beacon(1, 10, 0, 9, 1, 1, 2, 99), layout),
        stranger,
    ]
    line = b"".join(encode_frame(encode_packet(packet)) for packet in packets)
    first, second, third = decoded(line, "--deployment", str(path))
    assert (first["message"]["name"], first["message"]["stamp"]["kn10"], first["message"]["boot"]) == (
        "data",
        10,
        5,
    )
    assert (second["message"]["name"], second["message"]["time"]) == ("beacon", 99)
    assert third["unknown"].startswith("another layout or another application: AM type 0x04")
    readable = run("-d", str(path), stdin=line).stdout.splitlines()
    assert "data source=3 sequence=7 stamp=1/2/0/1" in readable[0]
    assert "beacon sender=1 root=10" in readable[1]
    assert "01 (another layout" in readable[2]


def test_values_are_shown_by_their_names(root: Path) -> None:
    path = root / "examples" / "sensors.toml"
    data = Data(3, 7, (1, 0, 0, 0, 0), data=bytes.fromhex("9c01 0002 3902 07"))
    line = encode_frame(encode_packet(encode_message(data, layout_of(load(path)))))
    (plain,) = decoded(line, "-d", str(path))
    assert plain["message"]["values"] == {"light": 412, "temperature": 512, "tilt": 1.00026, "count": 7}
    assert plain["message"]["data"] == "9c010002390207"
    readable = run("-d", str(path), stdin=line).stdout
    assert readable.endswith(" data=light 412 adc, temperature 512 adc, tilt 1.000 g, count 7\n")


def test_a_data_message_of_no_mote_is_marked_and_not_dropped(root: Path) -> None:
    path = root / "examples" / "paper.toml"
    layout = layout_of(load(path))
    sent = [Data(source, 7, (1, 2, *range(11)), data=b"abcd") for source in (9, 10)]
    line = b"".join(encode_frame(encode_packet(encode_message(data, layout))) for data in sent)
    first, second = decoded(line, "-d", str(path))
    assert "fault" not in first
    assert second["fault"] == "source 10 is no mote of this deployment, which has 0..9"
    assert second["message"]["source"] == 10
    result = run("-d", str(path), stdin=line)
    assert "no mote of this deployment" in result.stdout.splitlines()[1]
    assert "1 message from a source that is not a mote" in result.stderr


def test_readable_lines() -> None:
    line = encode_frame(encode_packet(Ack(2, 5))) + bytes.fromhex(SEEN)
    assert run(stdin=line).stdout.splitlines() == [
        "ack token 0x05",
        "type 0x04 group 0x7d to 0xffff length 4: 04000100",
    ]


@given(st.lists(st.integers(-(2**31) + 1, 2**31 - 1), max_size=30), st.integers(0, 2**32 - 1))
def test_unwrapping_follows_any_steps_below_half_the_range(steps: list[int], start: int) -> None:
    unwrap, true = captures.Unwrapper(), start
    assert unwrap(start) == start
    for step in steps:
        true += step
        assert unwrap(true % 2**32) == true
    assert unwrap.wraps == true >> 32


def test_a_clock_beyond_the_payload_is_null() -> None:
    assert [plain["clock"] for plain in decoded(SEEN, "--clock-at", "0")] == [0x00010004]
    assert [plain["clock"] for plain in decoded(SEEN, "--clock-at", "1")] == [None]


@given(st.binary(max_size=400), st.sampled_from(["auto", *captures.FORMATS]))
def test_hostile_input_never_breaks_it(raw: bytes, form: str) -> None:
    result = run("--json", "--format", form, stdin=raw)
    assert result.exit_code in (0, 1)
    assert not result.exception or isinstance(result.exception, SystemExit)


@pytest.fixture(scope="session")
def recordings(root: Path) -> Path:
    folder = root.parent / "shared" / "data" / "tinyos1_hexdumps"
    if not folder.is_dir():
        pytest.skip("the recordings in ../shared/data are not on this machine")
    return folder


def is_in_order_part(part: list[int], whole: list[int]) -> bool:
    rest = iter(whole)
    return all(value in rest for value in part)


@pytest.mark.parametrize(
    ("name", "packets", "said"),
    [
        ("sp_drift0", 2058, "clock wrapped 14 times"),
        ("sp_tsync1", 279, "line 280: truncated, skipped: 4 bytes"),
    ],
)
def test_recordings_match_their_authors_own_decoding(
    recordings: Path, name: str, packets: int, said: str
) -> None:
    result = run("--json", "--clock-at", "6", str(recordings / f"{name}.gz"))
    clocks = [plain["clock"] for plain in objects(result)]
    theirs = [int(line) for line in gzip.decompress((recordings / f"{name}.int.gz").read_bytes()).split()]
    assert (result.exit_code, len(clocks)) == (0, packets)
    assert is_in_order_part(theirs, [clock % 2**32 for clock in clocks])
    assert all(earlier < later for earlier, later in itertools.pairwise(clocks))
    assert said in result.stderr


def test_their_decodings_are_no_captures(recordings: Path) -> None:
    for name in ("sp_drift0.int.gz", "sp_tsync1.int.gz"):
        result = run("--json", str(recordings / name))
        assert (result.exit_code, result.stdout) == (1, "")
        assert "no capture" in result.stderr


def test_nestfe_recording(recordings: Path) -> None:
    result = run("--json", str(recordings / "nestfe_XSM_11samplepktsInputData.gz"))
    found = objects(result)
    assert (result.exit_code, len(found)) == (0, 236)
    assert {(plain["type"], plain["group"], plain["length"]) for plain in found} == {(10, 0x7D, 28)}
    assert "line 1: not hex, skipped: 'sf@localhost:9001'" in result.stderr
