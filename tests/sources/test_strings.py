"""From a string to a source: what is understood, what is refused and how, and what is chosen when none is given."""

import asyncio
import builtins
import subprocess
import sys

import pytest

from basestation.sources import KINDS, SourceError, SourceOptions, attached_ports, open_source, serial
from basestation.sources.base import Spec
from basestation.sources.source_choice import choose
from packet_formats.deployment import from_dict, load


@pytest.mark.parametrize(
    ("text", "device", "baud"),
    [
        ("serial@/dev/ttyUSB1", "/dev/ttyUSB1", 57600),
        ("serial@/dev/ttyUSB1:115200", "/dev/ttyUSB1", 115200),
        ("serial@/dev/ttyUSB1:mica2dot", "/dev/ttyUSB1", 19200),
        ("serial@/dev/ttyUSB1:telosb", "/dev/ttyUSB1", 115200),
        ("serial@COM3:micaz", "COM3", 57600),
        ("/dev/ttyUSB1", "/dev/ttyUSB1", 57600),
        ("/dev/ttyUSB1:telosb", "/dev/ttyUSB1", 115200),
        ("COM3", "COM3", 57600),
        ("serial@/dev/serial/by-path/pci-0:14.0-usb-0:2:1.1-port0", None, 57600),
        ("serial@/dev/serial/by-path/pci-0:14.0-usb-0:2:1.1-port0:9600", None, 9600),
    ],
)
def test_a_port_and_its_speed(text, device, baud):
    spec = Spec.parse(text)
    expected = device or "/dev/serial/by-path/pci-0:14.0-usb-0:2:1.1-port0"
    assert serial._device_and_baud(spec, SourceOptions()) == (expected, baud)


def test_a_board_that_is_not_ours_has_no_speed_of_its_own(root):
    ours = load(root / "examples" / "micaz.toml").to_dict()
    theirs = from_dict(ours | {"network": ours["network"] | {"board": "generic", "channel": 0}})
    with pytest.raises(SourceError, match="needs the speed of your gateway"):
        open_source("serial@/dev/ttyUSB1", options=SourceOptions(deployment=theirs))
    open_source("serial@/dev/ttyUSB1:115200", options=SourceOptions(deployment=theirs))
    open_source("sf@localhost", options=SourceOptions(deployment=theirs))


def test_a_port_whose_name_ends_like_a_speed_is_a_port_if_it_is_there(tmp_path):
    (tmp_path / "tty:9600").touch()
    spec = Spec.parse(f"serial@{tmp_path}/tty:9600")
    assert serial._device_and_baud(spec, SourceOptions()) == (f"{tmp_path}/tty:9600", 57600)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("sf@", "localhost", 9002),
        ("sf@field", "field", 9002),
        ("sf@field?tinyos=1", "field", 9001),
        ("sf@field:7", "field", 7),
        ("sf@[::1]:9001", "::1", 9001),
        ("sf@[::1]", "::1", 9002),
        ("sf@::1", "::1", 9002),
        ("network@10.0.0.3", "10.0.0.3", 10002),
        ("network@:99", "localhost", 99),
    ],
)
def test_a_host_and_its_port(text, host, port):
    open_source(text)
    spec = Spec.parse(text)
    default = 9001 if "tinyos=1" in text else 10002 if spec.kind == "network" else 9002
    assert spec.host_and_port(default) == (host, port)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ttyUSB0", "should look like serial@"),
        ("seriel@/dev/ttyUSB0", "did you mean serial"),
        ("x@y", "begins with serial@, network@, sf@"),
        ("serial@", "should name a port"),
        ("serial@/dev/ttyUSB0:micas", "did you mean mica"),
        ("serial@/dev/ttyUSB0:0", "neither a speed nor a platform"),
        ("serial@/dev/ttyUSB0?baud=3", "serial@ has no setting baud; it has none"),
        ("network@host:0", "a port from 1 to 65535"),
        ("network@host:port", "a port from 1 to 65535"),
        ("network@host:" + 5000 * "9", "a port from 1 to 65535"),
        ("serial@/dev/ttyUSB0:" + 5000 * "9", "neither a speed nor a platform"),
        ("sf@host:9002?tinyos=3", "tinyos=3 is not a number from 1 to 2"),
        ("sf@host:9002?tinyos=1.5", "tinyos=1.5 is not a whole number"),
        ("sf@host?tinyos", "name=value"),
        ("sf@host?tinyos=1&tinyos=2", "each once"),
        ("replay@", "should name"),
        ("replay@x?pace=nan", "pace=nan is not a number"),
        ("replay@x?speed=1", "has no setting speed"),
        ("simulate@", "needs a deployment"),
        ("simulate@examples/micaz.toml?messages=abc", "messages=abc is not a number from 1 to 10000000"),
        ("simulate@/nowhere.toml", "No such file"),
        ("testbed@?gateways=2", "basestation testbed DEPLOYMENT --gateways 2"),
        ("testbed@?mote=2", "did you mean motes"),
    ],
)
def test_a_wrong_string_says_what_is_wrong(text, why):
    with pytest.raises(SourceError) as refused:
        open_source(text)
    assert why in str(refused.value)


@pytest.mark.parametrize("host", ["..", 300 * "a", "a\0b"])
def test_what_can_be_no_hosts_name_is_said_to_be_none(host):
    with pytest.raises(SourceError, match="unknown host"):
        asyncio.run(open_source(f"network@{host}:9").open())


def test_numbers_of_a_simulation_are_checked(root):
    with pytest.raises(SourceError, match="motes=21 is not a number from 2 to 20"):
        open_source(f"simulate@{root}/examples/micaz.toml?motes=21")


def test_the_deployment_says_how_fast_its_board_is(root):
    options = SourceOptions(deployment=load(root / "examples" / "mica2.toml"))
    assert serial._device_and_baud(Spec.parse("serial@/dev/ttyS0"), options) == ("/dev/ttyS0", 57600)


def test_a_kind_that_lacks_something_breaks_alone(monkeypatch):
    real = builtins.__import__

    def without_pyserial(name, *args, **kwargs):
        if name == "serial":
            raise ModuleNotFoundError("No module named 'serial'", name="serial")
        return real(name, *args, **kwargs)

    for module in ("basestation.sources.serial", "basestation.sources.attached_ports"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(builtins, "__import__", without_pyserial)
    with pytest.raises(SourceError, match="needs the Python module serial, which is not installed"):
        open_source("serial@/dev/ttyUSB0")
    open_source("sf@localhost")


def test_the_registry_loads_only_what_is_asked_for():
    program = (
        "import sys; from basestation.sources import open_source; open_source('network@x:1');"
        "print(*[name for name in sys.modules if name.split('.')[0] in ('serial', 'numpy', 'pyarrow')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    assert set(KINDS) == {"serial", "network", "sf", "replay", "testbed", "simulate"}


# None given

DUAL = "0403:6010"
PROGRAMMER = attached_ports.SerialPort("/dev/ttyUSB0", "MIB520", DUAL, "XBOW1", "1.0")
LINE = attached_ports.SerialPort("/dev/ttyUSB1", "MIB520", DUAL, "XBOW1", "1.1")
ADAPTER = attached_ports.SerialPort("/dev/ttyUSB2", "USB-Serial", "067b:2303")
BUILT_IN = attached_ports.SerialPort("/dev/ttyS0")
MODEM = attached_ports.SerialPort("/dev/ttyACM0", "a modem", "1234:5678")


def chosen(monkeypatch, *attached, given=(), deployed=(), **environ):
    monkeypatch.setattr(attached_ports, "attached", lambda: list(attached))
    return choose(given, environ, deployed)


def test_what_is_given_comes_first_then_motecom_then_the_deployment(monkeypatch):
    choice = chosen(monkeypatch, LINE, deployed=("sf@d", "sf@e"))
    assert (choice.texts, choice.why) == (("sf@d", "sf@e"), "the deployment says sf@d, sf@e")
    assert chosen(monkeypatch, LINE, deployed=("sf@d",), MOTECOM="sf@c").texts == ("sf@c",)
    assert chosen(monkeypatch, LINE, given=["sf@a", "sf@b"], MOTECOM="sf@c").texts == ("sf@a", "sf@b")
    choice = chosen(monkeypatch, LINE, MOTECOM="sf@c")
    assert (choice.texts, choice.why) == (("sf@c",), "MOTECOM says sf@c")


def test_the_likeliest_port_is_taken_and_named(monkeypatch):
    choice = chosen(monkeypatch, PROGRAMMER, LINE, ADAPTER, BUILT_IN, MODEM)
    assert choice.texts == ("serial@/dev/ttyUSB1",)
    assert "using serial@/dev/ttyUSB1: MIB520" in choice.why
    assert chosen(monkeypatch, ADAPTER, BUILT_IN, MODEM).texts == ("serial@/dev/ttyUSB2",)
    assert chosen(monkeypatch, ADAPTER, BUILT_IN).texts == ("serial@/dev/ttyUSB2",)


def test_doubt_is_said_and_not_settled(monkeypatch):
    other = attached_ports.SerialPort("/dev/ttyUSB3", "MIB520", DUAL, "XBOW2", "1.1")
    with pytest.raises(SourceError, match=r"several ports.*serial@/dev/ttyUSB1 .*serial@/dev/ttyUSB3 "):
        chosen(monkeypatch, PROGRAMMER, LINE, other)
    with pytest.raises(SourceError, match=r"there is only serial@/dev/ttyACM0 \(a modem\)"):
        chosen(monkeypatch, MODEM)
    with pytest.raises(
        SourceError, match=r"there is only serial@/dev/ttyS0 \(a built-in port; name it if a MIB510 is on it"
    ):
        chosen(monkeypatch, BUILT_IN)
    with pytest.raises(SourceError, match="nothing attached looks like a gateway: plug it in"):
        chosen(monkeypatch)
