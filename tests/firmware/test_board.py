"""The MICAz's board code, compiled by avr-gcc and run on an emulated ATmega128 with a modelled CC2420."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from packet_formats import cheader
from packet_formats.deployment import load

HZ = 7_372_800
CYCLE = HZ // 32768  # 225 CPU cycles
FLAGS = (
    "-mmcu=atmega128",
    "-DF_CPU=7372800UL",
    "-std=gnu11",
    "-Os",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
)


def layout(root: Path, board: str, tinyos: int, folder: Path) -> Path:
    text = (root / f"examples/{board}.toml").read_text().replace("tinyos = 1", f"tinyos = {tinyos}")
    (folder / "deployment.toml").write_text(text)
    (folder / "causeway_layout.h").write_text(cheader.render(load(folder / "deployment.toml")))
    return folder


def sources(root: Path, *folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((root / "firmware" / folder).glob("*.c"))]


@pytest.mark.parametrize("tinyos", [1, 2])
def test_compiles_without_a_warning(
    root: Path, require_tool: Callable[[str], str], tmp_path: Path, tinyos: int
) -> None:
    compiler = require_tool("avr-gcc")
    include = [f"-I{root / 'firmware'}", f"-I{layout(root, 'micaz', tinyos, tmp_path)}"]
    for source in sources(root, "boards/mica", "boards/micaz", "chips/cc2420"):
        subprocess.run([compiler, *FLAGS, *include, "-c", source, "-o", tmp_path / "x.o"], check=True)


class Mote:
    """The probe on the emulator; what it is told and what comes of it."""

    def __init__(self, simulator: Path, firmware: Path) -> None:
        self.command = [simulator, firmware]

    def run(self, *lines: str) -> list[tuple[int, str, str]]:
        """(CPU cycles, what, text) of all that happened after the greeting."""
        text = "\n".join(["run 30", *lines]) + "\n"
        done = subprocess.run(
            self.command, input=text, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        happened = []
        for line in done.stdout.splitlines():
            words = line.split(maxsplit=2)
            if words[0].isdigit():
                rest = words[2] if len(words) == 3 else ""
                rest = bytes.fromhex(rest).decode("latin-1").rstrip("\n") if words[1] == "uart" else rest
                happened.append((int(words[0]), words[1], rest))
        assert happened[0][2].startswith("hello"), happened
        assert happened[0][2].endswith("lost 0")
        return happened[1:]

    def answers(self, *lines: str) -> list[str]:
        return [rest for _, what, rest in self.run(*lines) if what == "uart"]


@pytest.mark.parametrize("early", [0, 1], ids=["data_sheet", "emulator"])
def test_clock_on_an_asynchronous_timer(
    root: Path, require_tool: Callable[[str], str], tmp_path: Path, early: int
) -> None:
    """Flags come a crystal cycle late, counts are stale after sleep, writes take two edges: readings are exact."""
    c = root / "tests/firmware/c"
    flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-DF_CPU=7372800UL")
    include = (f"-I{c / 'board_avr'}", f"-I{root / 'firmware'}")
    program = tmp_path / "board_clock"
    sources = (c / "board_clock.c", root / "firmware/boards/mica/clock.c")
    subprocess.run([require_tool("gcc"), *flags, *include, "-o", program, *sources], check=True)
    for seed in range(1, 5):
        done = subprocess.run(
            [program, str(seed), str(early)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout


def tell(text: str, *more: int) -> str:
    return "uart " + (text.encode() + bytes(more)).hex()


@pytest.fixture(scope="module")
def mote(root: Path, require_tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Mote:
    require_tool("simavr")
    if (
        subprocess.run([require_tool("pkg-config"), "--exists", "simavr", "libelf"], check=False).returncode
        != 0
    ):
        require_tool("libsimavr-dev and libelf-dev")
    folder = layout(root, "micaz", 1, tmp_path_factory.mktemp("board"))
    include = [f"-I{path}" for path in (root / "firmware", root / "firmware/core", folder)]
    c = root / "tests/firmware/c"
    firmware = [*sources(root, "boards/mica", "boards/micaz", "chips/cc2420"), root / "firmware/core/air.c"]
    subprocess.run(
        [
            require_tool("avr-gcc"),
            *FLAGS,
            *include,
            c / "board_probe.c",
            *firmware,
            "-o",
            folder / "probe.elf",
        ],
        check=True,
    )
    flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", folder / "board_sim")
    subprocess.run([require_tool("gcc"), *flags, c / "board_sim.c", "-lsimavr", "-lelf"], check=True)
    return Mote(folder / "board_sim", folder / "probe.elf")


def test_clock_keeps_the_crystals_time(mote: Mote) -> None:
    """Asked ten times over 3 s, many overflows apart and at all phases of them."""
    asked = [line for i in range(10) for line in (tell("n"), f"run {300 + 1.3 * i}")]
    answers = [(at, int(rest.split()[1])) for at, what, rest in mote.run(*asked) if what == "uart"]
    assert len(answers) == 10
    first_at, first = answers[0]
    for at, time in answers:
        assert abs((time - first) - (at - first_at) / CYCLE) < 3  # from reading to answering varies a little


def test_clock_never_runs_backwards(mote: Mote) -> None:
    """Read thousands of times over eight overflows of timer 0."""
    answer = mote.answers(tell("c"), "run 90")[0].split()
    readings, back, step = map(int, answer[1:])
    assert readings > 3000
    assert back == 0
    assert step <= 2


@pytest.mark.parametrize("cycles", [0, 1, 2, 3, 4, 100, 255, 256, 257, 258, 300, 511, 5000])
def test_alarm_comes_at_its_time(mote: Mote, cycles: int) -> None:
    answer = mote.answers(tell("a", cycles >> 8, cycles & 255), "run 180")[0].split()
    late = int(answer[2]) - int(answer[1])
    assert 0 <= late <= 5


def test_alarms_in_a_row(mote: Mote) -> None:
    worst, early = map(int, mote.answers(tell("k"), "run 60")[0].split()[1:])
    assert early == 0
    assert worst <= 4


def test_sleep_in_power_save(mote: Mote) -> None:
    before, after = map(int, mote.answers(tell("f"), "run 40")[0].split()[1:])
    assert 300 <= after - before <= 305


def test_interrupts_are_never_off_for_long(mote: Mote) -> None:
    """MICA2's radio allows 192 CPU cycles; what both boards share stays below with the radio off."""
    happened = mote.run(
        "masked", tell("k"), "run 60", tell("c"), "run 90", tell("e", 40, *range(40)), "run 30", "masked"
    )
    longest = [int(rest.split()[0]) for _, what, rest in happened if what == "masked"]
    assert longest[-1] <= 192


def test_uart_echoes_at_57600(mote: Mote) -> None:
    data = bytes(range(11, 211))
    happened = mote.run("uart " + (b"e" + bytes([len(data) + 1]) + data + b"\n").hex(), "run 80")
    assert happened[0][2].encode("latin-1") == data


def test_eeprom(mote: Mote) -> None:
    lines = [tell("p", 0x0F, 0xFF, 0x5A), "run 20", tell("p", 0, 0, 0xA5), "run 20"]
    lines += [tell("g", 0x0F, 0xFF), "run 10", tell("g", 0, 0), "run 10", tell("g", 0, 1), "run 10"]
    assert mote.answers(*lines) == ["p", "p", "g 5a", "g a5", "g ff"]


def test_leds(mote: Mote) -> None:
    """Red PA2, green PA1, yellow PA0; low is on; red is 1, green 2, yellow 4."""
    lines = ["pins"]
    for command, leds in (("l", 1), ("l", 2), ("l", 4), ("l", 7), ("t", 5), ("l", 0)):
        lines += [tell(command, leds), "run 5", "pins"]
    pins = [rest for _, what, rest in mote.run(*lines) if what == "pins"]
    assert pins == [f"{level} 7" for level in (0b111, 0b011, 0b101, 0b110, 0b000, 0b101, 0b111)]


def test_adc(mote: Mote) -> None:
    answer = mote.answers("adc 3 1500", tell("d", 3), "run 5", "adc 7 750", tell("d", 7), "run 5")
    assert [
        abs(int(one.split()[1]) - expected) <= 2 for one, expected in zip(answer, (512, 256), strict=True)
    ] == [
        True,
        True,
    ]


def test_supply(mote: Mote) -> None:
    """The processor's own reference against 3.0 V; a channel measured before or behind it does not disturb it."""
    found = mote.answers(
        "adc 3 1500", tell("d", 3), "run 5", tell("v"), "run 5", tell("d", 3), "run 5", tell("v"), "run 5"
    )
    assert found[0] == found[2]
    assert found[1] == found[3]
    assert abs(int(found[1].split()[1]) - 1024 * 1230 / 3000) <= 2


@pytest.mark.parametrize(("command", "wait"), [("z", 40), ("w", 2300)])
def test_reset(mote: Mote, command: str, wait: int) -> None:
    answers = mote.answers(tell(command), f"run {wait}", tell("n"), "run 10")
    assert answers[0].startswith("hello")
    assert int(answers[1].split()[1]) < (wait + 100) * 33


def test_frames_both_ways(mote: Mote) -> None:
    """A beacon out with its own time in it, a frame in with the time of its delimiter."""
    body = bytes.fromhex("010807ffffffff707d0102030405")
    frame = bytes([len(body) + 2]) + body + fcs(body)
    happened = mote.run(
        tell("n"), "run 10", tell("r"), "run 20", tell("b"), "run 40", f"frame {frame.hex()}", "run 20",
        tell("s", 3, 0xAA, 0xBB, 0xCC), "run 40",
    )  # fmt: skip
    answers = [rest for _, what, rest in happened if what == "uart"]
    reference = next((at, int(rest.split()[1])) for at, what, rest in happened if what == "uart")
    assert answers[1] == "r 1"

    def local(at: int) -> float:
        return reference[1] + (at - reference[0]) / CYCLE

    delimiters = [at for at, what, _ in happened if what == "sfd"]
    beacon, plain = [rest.split()[1] for _, what, rest in happened if what == "air"]
    sent = int(answers[2].split()[2])
    assert answers[2].split()[1] == "0"
    assert (
        abs(sent - local(delimiters[0])) <= 10
    )  # the answer to `n` came a character's time after the reading
    reference = (delimiters[0], sent)
    expected = bytes.fromhex("010800ffffffff707d") + bytes(range(10)) + sent.to_bytes(4, "little")
    assert beacon == (bytes([len(expected) + 2]) + expected + fcs(expected)).hex()
    heard = answers[3].split()
    assert heard[2:] == ["-40", "107", "0102030405"]
    # A time is told up to 1.5 cycles too early and 0.5 too late; `reference` is one of them, too.
    assert abs(int(heard[1]) - local(delimiters[1])) <= 2
    expected = bytes.fromhex("010801ffffffff707daabbcc")
    assert answers[4].split()[1] == "0"
    assert abs(int(answers[4].split()[2]) - local(delimiters[2])) <= 2
    assert plain == (bytes([len(expected) + 2]) + expected + fcs(expected)).hex()


def fcs(body: bytes) -> bytes:
    value = 0
    for byte in body:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ 0x8408 if value & 1 else value >> 1
    return value.to_bytes(2, "little")
