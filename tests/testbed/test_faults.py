"""Timelines: from TOML to the engine's script, and what is refused in which words."""

import pytest

from basestation.testbed.faults import FaultError, load, parse
from tests.testbed.worlds import deployment, network

FRAME = "0501080000ff"


@pytest.fixture
def networks():
    return [
        network(deployment(motes=20), motes=4, gateways=2),
        network(deployment("brook", board="mica2", tinyos=2), motes=2, first=10),
    ]


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        ('do = "kill"\nmote = 3', ["at 12.5 off 3"]),
        ('do = "revive"\nmote = 3', ["at 12.5 on 3"]),
        ('do = "reset"\nmote = "gateway"', ["at 12.5 reset 4"]),
        ('do = "reset"\nmote = "gateway 1"', ["at 12.5 reset 5"]),
        ('do = "reset"\nmote = 21', ["at 12.5 reset 5"]),
        ('do = "reset"\nmote = 1\nnetwork = "brook"', ["at 12.5 reset 11"]),
        ('do = "restart"\nmote = "root"', ["at 12.5 off 4", "at 13.5 on 4"]),
        ('do = "restart"\nmote = "root"\nseconds = 30', ["at 12.5 off 4", "at 42.5 on 4"]),
        ('do = "brownout"\nmote = 0\nseconds = 0.05', ["at 12.5 brownout 0 0.05"]),
        ('do = "corrupt"\nmote = 0\nbytes = 100', ["at 12.5 corrupt 0 100"]),
        ('do = "stop-crystal"\nmote = 2', ["at 12.5 crystal 2 stop"]),
        ('do = "run-crystal"\nmote = 2', ["at 12.5 crystal 2 run"]),
        ('do = "cut"\nbetween = [0, "gateway"]', ["at 12.5 cut 0 4"]),
        ('do = "heal"\nbetween = [0, 3]', ["at 12.5 heal 0 3"]),
        ('do = "jam"\nseconds = 2', ["at 12.5 jam 2405000 -50 2"]),
        ('do = "jam"\nseconds = 2\nchannel = 26\ndbm = -70', ["at 12.5 jam 2480000 -70 2"]),
        ('do = "jam"\nseconds = 2\nnetwork = "brook"', ["at 12.5 jam 434845 -50 2"]),
        (f'do = "inject"\nframe = "{FRAME}"', [f"at 12.5 inject 2405000 -60 micaz {FRAME}"]),
        (f'do = "inject"\nframe = "{FRAME}"\nkhz = 2450000', [f"at 12.5 inject 2450000 -60 micaz {FRAME}"]),
        ('do = "uart"\nmote = "gateway"\nbytes = "7E 40 7e"', ["at 12.5 uart 4 7e407e"]),
    ],
)
def test_each_kind(networks, fault, lines):
    assert parse(f"[[fault]]\nat = 12.5\n{fault}\n", networks) == tuple(lines)


def test_the_script_is_in_the_order_of_time(networks):
    text = '[[fault]]\nat = 9\ndo = "kill"\nmote = 1\n[[fault]]\nat = 2\ndo = "restart"\nmote = 2\nseconds = 100\n'
    assert parse(text, networks) == ("at 2 off 2", "at 9 off 1", "at 102 on 2")
    assert parse("", networks) == ()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ('do = "kill"\nmote = 3', "fault 1: at is missing"),
        ("at = 1", "do is missing"),
        ('at = 1\ndo = "kil"\nmote = 3', "did you mean kill"),
        ('at = 1\ndo = "kill"', "kill needs mote"),
        ('at = 1\ndo = "kill"\nmoat = 3', "kill has no moat; did you mean mote"),
        ('at = 1\ndo = "kill"\nmote = 4', "no mote 4 in meadow: there are motes 0 to 3"),
        ('at = 1\ndo = "kill"\nmote = "gateway 2"', "no mote 'gateway 2'"),
        ('at = 1\ndo = "kill"\nmote = true', "no mote True"),
        ('at = 1\ndo = "kill"\nmote = 1\nnetwork = "broo"', "did you mean brook"),
        ('at = -1\ndo = "kill"\nmote = 1', "at = -1"),
        ('at = nan\ndo = "kill"\nmote = 1', "at = nan"),
        ('at = "1"\ndo = "kill"\nmote = 1', "at = '1'"),
        ('at = 1\ndo = "corrupt"\nmote = 1\nbytes = 0.5', "bytes = 0.5"),
        ('at = 1\ndo = "corrupt"\nmote = 1\nbytes = 1.5', "must be a whole number"),
        ('at = 1\ndo = "cut"\nbetween = [1]', "two motes"),
        ('at = 1\ndo = "cut"\nbetween = [1, 1]', "one node twice"),
        ('at = 1\ndo = "uart"\nmote = 1\nbytes = "7"', "must be hex digits"),
        ('at = 1\ndo = "inject"\nframe = ""', "frame is empty"),
        ('at = 1\ndo = "jam"\nseconds = 1\nkhz = 433000\nchannel = 26', "not both"),
        ('at = 1\ndo = "jam"\nseconds = 1\nchannel = 27', "channel = 27"),
    ],
)
def test_what_cannot_be_is_refused_in_words(networks, fault, words):
    with pytest.raises(FaultError) as refused:
        parse(f"[[fault]]\n{fault}\n", networks, "storm.toml")
    assert str(refused.value).startswith("storm.toml, fault 1: ")
    assert words in str(refused.value)


@pytest.mark.parametrize("text", ["[fault]\nat = 1", "fault = [1]", "[[faults]]\nat = 1", "[[fault]\n"])
def test_what_is_no_timeline(networks, text):
    with pytest.raises(FaultError, match="storm"):
        parse(text, networks, "storm")


def test_a_file(networks, tmp_path):
    path = tmp_path / "storm.toml"
    with pytest.raises(FaultError, match="No such file"):
        load(path, networks)
    path.write_bytes(b"\xff")
    with pytest.raises(FaultError, match="UTF-8"):
        load(path, networks)
    path.write_text('[[fault]]\nat = 1\ndo = "reset"\nmote = 0\n')
    assert load(path, networks) == ("at 1 reset 0",)
