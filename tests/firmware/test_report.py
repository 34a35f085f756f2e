"""The firmware's report: stack analysis on small programs, the aims on real images, docs/figures/firmware.md up to
date."""

from __future__ import annotations

import re
import subprocess

import pytest
import stack

from packet_formats.deployment import from_dict, load
from packet_formats.layout import layout_of
from tools import firmware_report as report

# --- what avr-objdump and avr-size print ---

START = """
00000000 <__vectors>:
       0:\t0c 94 46 00 \tjmp\t0x8c\t; 0x8c <__ctors_end>
"""
UNUSED = "".join(
    f"      {4 * n:2x}:\t0c 94 50 00 \tjmp\t0xa0\t; 0xa0 <__bad_interrupt>\n" for n in range(1, 34)
)


def block_in(text: str) -> str:
    """What stands between the marks of a page."""
    return text.partition(report.PLACE.begin)[2].partition(report.PLACE.end)[0].strip()


def listing(code: str, handler: str = "0xa0") -> str:
    """A program whose last interrupt, number 34, has a handler."""
    tail = "0000008c <__ctors_end>:\n      8c:\t0e 94 60 00 \tcall\t0xc0\t; 0xc0 <main>\n"
    tail += "      90:\tff cf       \trjmp\t.-2      \t; 0x90\n"
    bad = "000000a0 <__bad_interrupt>:\n      a0:\t0c 94 00 00 \tjmp\t0\t; 0x0 <__vectors>\n"
    return f"{START}{UNUSED}      88:\t0c 94 60 00 \tjmp\t{handler}\t; <x>\n\n{tail}{bad}\n{code}"


FRAME = """
000000c0 <main>:
      c0:\tcf 93       \tpush\tr28
      c2:\tdf 93       \tpush\tr29
      c4:\tcd b7       \tin\tr28, 0x3d\t; 61
      c6:\tde b7       \tin\tr29, 0x3e\t; 62
      c8:\tc8 59       \tsubi\tr28, 0x98\t; 152
      ca:\td1 09       \tsbc\tr29, r1
      cc:\t0f b6       \tin\tr0, 0x3f\t; 63
      ce:\tf8 94       \tcli
      d0:\tde bf       \tout\t0x3e, r29\t; 62
      d2:\t0f be       \tout\t0x3f, r0\t; 63
      d4:\tcd bf       \tout\t0x3d, r28\t; 61
      d6:\t89 81       \tldd\tr24, Y+1\t; 0x01
      d8:\t04 d0       \trcall\t.+8      \t; 0xe2 <leaf.lto_priv.3>
      da:\tc8 56       \tsubi\tr28, 0x68\t; 104
      dc:\tdf 4f       \tsbci\tr29, 0xFF\t; 255
      de:\tcd bf       \tout\t0x3d, r28\t; 61
      e0:\t08 95       \tret

000000e2 <leaf.lto_priv.3>:
      e2:\t00 d0       \trcall\t.+0      \t; 0xe4 <leaf.lto_priv.3+0x2>
      e4:\t1f 92       \tpush\tr1
      e6:\t80 fd       \tsbrc\tr24, 0
      e8:\t03 c0       \trjmp\t.+6      \t; 0xf0 <leaf.lto_priv.3+0xe>
      ea:\t0f 90       \tpop\tr0
      ec:\t0f 90       \tpop\tr0
      ee:\t0f 90       \tpop\tr0
      f0:\t08 95       \tret
"""


def test_pushes_frames_and_calls():
    found = stack.analyse(stack.parse(listing(FRAME)))
    # the call of main, two registers, the frame, a call, two bytes by a call to the next instruction, a push
    assert found.loop == stack.Use(2 + 2 + 152 + 2 + 2 + 1, ("__ctors_end", "main", "leaf"))
    assert found.handlers == {}
    assert found.total == found.loop.most


SHARED = """
000000c0 <main>:
      c0:\ta3 e0       \tldi\tr26, 0x03\t; 3
      c2:\tb1 e0       \tldi\tr27, 0x01\t; 1
      c4:\te5 e6       \tldi\tr30, 0x65\t; 101
      c6:\tf0 e0       \tldi\tr31, 0x00\t; 0
      c8:\t05 c0       \trjmp\t.+10     \t; 0xd4 <__prologue_saves__+0x2>
      ca:\t1f 92       \tpush\tr1
      cc:\t0f 90       \tpop\tr0
      ce:\te2 e0       \tldi\tr30, 0x02\t; 2
      d0:\t0a c0       \trjmp\t.+20     \t; 0xe6 <__epilogue_restores__+0x2>

000000d2 <__prologue_saves__>:
      d2:\t1f 93       \tpush\tr17
      d4:\tcf 93       \tpush\tr28
      d6:\tdf 93       \tpush\tr29
      d8:\tcd b7       \tin\tr28, 0x3d\t; 61
      da:\t09 94       \tijmp

000000e4 <__epilogue_restores__>:
      e4:\t1b 81       \tldd\tr17, Y+3\t; 0x03
      e6:\taa 81       \tldd\tr26, Y+2\t; 0x02
      e8:\tcd bf       \tout\t0x3d, r28\t; 61
      ea:\t08 95       \tret
"""


def test_registers_and_frames_by_shared_code():
    found = stack.analyse(stack.parse(listing(SHARED)))
    # the call of main, two of the three registers, the frame, a push
    assert found.loop == stack.Use(2 + 2 + 0x103 + 1, ("__ctors_end", "main"))
    for loaded in ("ldi\tr26, 0x03", "ldi\tr30, 0x65"):
        with pytest.raises(stack.StackError, match="a frame of unknown size"):
            stack.analyse(stack.parse(listing(SHARED.replace(loaded, "ldi\tr24, 0x03"))))


def handler(body: str) -> str:
    return f"{FRAME}\n00000100 <__vector_34>:\n{body}"


def test_a_handler_comes_on_top():
    body = (
        "     100:\t1f 92       \tpush\tr1\n     102:\t1f 90       \tpop\tr1\n     104:\t18 95       \treti\n"
    )
    found = stack.analyse(stack.parse(listing(handler(body), "0x100")))
    assert found.handlers == {34: stack.Use(3, ("__vector_34",))}
    assert found.total == found.loop.most + 3


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("recursion", "      e4:\tfe df       \trcall\t.-4      \t; 0xe2", "leaf calls itself"),
        ("computed", "      e4:\t09 94       \tijmp", "a jump to a computed address"),
        ("indirect", "      e4:\t09 95       \ticall", "unknown target"),
        ("pointer", "      e4:\t8d bf       \tout\t0x3d, r24\t; 61", "comes from r24"),
        ("loop", "      e4:\tfd cf       \trjmp\t.-4      \t; 0xe2", "it has no bound"),
        ("nowhere", "      e4:\t0c 94 60 00 \tjmp\t0x800", "out of the code"),
    ],
)
def test_what_has_no_bound_is_refused(name, line, reason):
    code = FRAME.replace("      e4:\t1f 92       \tpush\tr1", line)
    with pytest.raises(stack.StackError, match=reason):
        stack.analyse(stack.parse(listing(code)))


def test_handlers_that_nest_are_refused():
    body = "     100:\t78 94       \tsei\n     102:\t18 95       \treti\n"
    with pytest.raises(stack.StackError, match="lets others interrupt it"):
        stack.analyse(stack.parse(listing(handler(body), "0x100")))


def test_a_known_indirect_call():
    code = FRAME.replace("      e4:\t1f 92       \tpush\tr1", "      e4:\t09 95       \ticall")
    code = code.replace("      ea:\t0f 90       \tpop\tr0", "      ea:\t00 00       \tnop")
    code += "\n00000120 <on_data.lto_priv.99>:\n     120:\t1f 92       \tpush\tr1\n"
    code += "     122:\t0f 90       \tpop\tr0\n     124:\t08 95       \tret\n"
    found = stack.analyse(stack.parse(listing(code)))
    assert found.loop.path == ("__ctors_end", "main", "leaf", "on_data")
    assert found.loop.most == 2 + 2 + 152 + 2 + 2 + (2 + 1)


# --- the real images ---


@pytest.fixture(scope="module")
def images(require_tool, tmp_path_factory):
    require_tool("avr-gcc")
    require_tool("avr-objdump")
    folder = tmp_path_factory.mktemp("images")
    return {
        name: report.build(deployment, app, folder / name)
        for board, deployment in report.examples().items()
        for app, name in (("mote", board), ("gateway", f"{board}_gateway"))
    }


@pytest.mark.wide
def test_images_are_within_the_aims(images):
    assert tuple(images) == report.IMAGES
    for name, image in images.items():
        assert image.flash <= report.FLASH_AIM, name
        assert image.ram <= report.RAM_AIM, name


@pytest.fixture(scope="module")
def full(require_tool, tmp_path_factory):
    require_tool("avr-gcc")
    require_tool("avr-objdump")
    return report.full_images(tmp_path_factory.mktemp("full"))


@pytest.mark.wide
def test_images_with_a_schedule_a_key_and_barrier_stamps_are_within_their_aims(full):
    assert tuple(full) == report.IMAGES
    for name, image in full.items():
        assert report.FLASH_AIM < image.flash <= report.FULL_FLASH_AIM, name
        assert image.ram <= report.FULL_RAM_AIM, name


@pytest.mark.wide
@pytest.mark.parametrize("board", report.BOARDS)
def test_largest_mote_images_are_within_the_aims(root, require_tool, tmp_path, board):
    """Barrier stamps, a sensor board, values with names, twenty motes: all of our apps."""
    require_tool("avr-gcc")
    tables = load(root / "examples" / "alarm.toml").to_dict()
    network = {"name": "large", "board": board, "sensor_board": "mts310", "motes": 20}
    clock = {key: tables["clock"][key] for key in ("tick_log2", "epsilon", "delta")}
    deployment = from_dict(
        {"network": network, "clock": clock, "stamp": {"scheme": "barrier"}, "data": tables["data"]}
    )
    for app in ("alarm", "mote", "template"):
        image = report.build(deployment, app, tmp_path / app)
        assert image.flash <= report.FLASH_AIM, app
        assert image.ram <= report.RAM_AIM, app


def assert_within(image: report.ImageSize, seen: report.Seen, name: str) -> None:
    """No deeper stack than the worst case; interrupts off no longer than the radios allow."""
    assert seen.stack <= image.stack.total, name
    if name.startswith("micaz"):
        assert 50 < seen.masked <= report.MASKED_AIM, name
    else:
        assert 0 < seen.spi <= report.SPI_AIM, name


@pytest.mark.wide
def test_stack_and_interrupts_when_busy(images, testbed):
    for name, seen in report.seen_when_busy(images).items():
        assert_within(images[name], seen, name)
        # far below would be a run in which nothing happened
        assert seen.stack >= images[name].stack.total * 3 // 4, name


@pytest.mark.wide
def test_and_in_a_network(images, testbed):
    for name, seen in report.seen_in_networks(images, seconds=20, seeds=(1,)).items():
        assert_within(images[name], seen, name)


# --- the page ---


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs" / "figures" / "firmware.md").read_text()


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a text: rows of cells."""
    found = re.findall(r"(?:^\|.*\|\n?)+", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in row.strip("|").split("|")] for row in one.splitlines()] for one in found
    ]


@pytest.mark.wide
def test_the_page_s_figures_are_of_these_sources(page, images):
    """With the compiler that made them, to a few per cent: a fix of a few bytes need not change the page."""
    block = block_in(page)
    if f"Compiler: {report.compiler()}," not in block:
        pytest.skip("the page was made with another compiler")
    for row in tables(block)[0][2:]:
        image = images[row[0].strip("`")]
        found = (image.flash, image.static_ram, image.stack.total)
        said = tuple(int(row[column]) for column in (1, 2, 5))
        assert said == pytest.approx(found, rel=0.04), f"{row[0]}: run make firmware-report"


@pytest.mark.wide
def test_the_page_s_figures_of_full_images_are_of_these_sources(page, full):
    block = block_in(page)
    if f"Compiler: {report.compiler()}," not in block:
        pytest.skip("the page was made with another compiler")
    for row in tables(block)[3][2:]:
        image = full[row[0].strip("`")]
        found = image.flash, image.static_ram, image.stack.total, image.ram
        assert [int(cell) for cell in row[1:]] == pytest.approx(found, rel=0.04), (
            f"{row[0]}: run make firmware-report"
        )


@pytest.mark.wide
@pytest.mark.parametrize("name", [*report.RECEIVE_AIM, *report.NAMING])
def test_the_page_s_cycles_are_of_these_sources(page, require_tool, name):
    require_tool("avr-gcc")
    require_tool("simavr")
    block = block_in(page)
    if f"Compiler: {report.compiler()}," not in block:
        pytest.skip("the page was made with another compiler")
    [row] = [row for row in tables(block)[4] if row[0] == name]
    found = report.stamp_cycles(report.schemes()[name])
    said = [int(cell) for cell in row[6:10]]
    assert said == pytest.approx([*found["send"][1:], *found["receive"][1:]], rel=0.04), (
        "run make firmware-report"
    )


def test_the_wire_s_bytes_on_the_page(page):
    for row in tables(block_in(page))[4][2:]:
        layout = layout_of(report.described(report.schemes()[row[0]]))
        said = [int(cell) for cell in row[1:6]]
        air = [report.air_bytes(board, layout.length) for board in report.BOARDS]
        assert said == [layout.stamp.bits, layout.stamp.size, layout.length, *air]


@pytest.mark.wide
@pytest.mark.parametrize("name", ["vector", "delta-vector"])
def test_the_page_s_largest_networks_are_of_these_sources(page, require_tool, name, tmp_path):
    require_tool("avr-gcc")
    require_tool("simavr")
    block = block_in(page)
    if f"Compiler: {report.compiler()}," not in block:
        pytest.skip("the page was made with another compiler")
    [row] = [row for row in tables(block)[5] if row[:2] == [name, str(report.SIZES[-1])]]
    stamp, motes = report.schemes()[name], report.SIZES[-1]
    found = report.stamp_cycles(stamp, motes)
    image = report.build(report.described(stamp, motes=motes), "mote", tmp_path)
    assert image.flash <= report.FLASH_AIM
    assert image.ram <= report.RAM_AIM
    said = [int(cell) for cell in row[3:9]]
    figures = [*found["send"][1:], *found["receive"][1:], image.flash, image.ram]
    assert said == pytest.approx(figures, rel=0.04), "run make firmware-report"


def test_every_setting_has_its_row(root):
    page = (root / "docs" / "reference" / "firmware.md").read_text()
    settings = page.split("## Settings")[1].split("\n## ")[0]
    named = set(re.findall(r"[A-Z][A-Z0-9_]{4,}", " ".join(row[0] for row in tables(settings)[0])))
    found = set()
    for path in (root / "firmware").rglob("*.[ch]"):
        if "test" not in path.relative_to(root / "firmware").parts:
            found |= set(
                re.findall(r"^#ifndef (\w+)\n(?:#if.*\n)?#define \1 ", path.read_text(), re.MULTILINE)
            )
    assert found <= named, found - named


def test_the_script_names_the_fault(root, require_tool, tmp_path):
    require_tool("avr-objdump")
    (tmp_path / "x.elf").write_bytes(b"no ELF")
    words = ["python3", str(root / "firmware/scripts/stack.py"), str(tmp_path / "x.elf")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Error:" in done.stderr
