"""A run as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from basestation.cli.listen import command as listen
from basestation.cli.log import command as log
from basestation.journal.writer import JournalWriter
from basestation.web.export import inlined
from packet_formats.deployment import CRYSTAL_HZ
from tests.live.world import WALL, Gateway, Motes, deployment

SIMULATE = "simulate@?messages=200&rate=0.05&pace=0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small page."""
    files = {
        "index.html": '<html><head><link rel="icon" href="page/icon.svg"><link rel="stylesheet" href="page/a.css">\n'
        '<script type="module" src="page/one.js"></script>\n<script type="module" src="page/two.js"></script>\n'
        "</head><body><p>here</p></body></html>",
        "a.css": "p { color: red }",
        "icon.svg": "<svg/>",
        "one.js": "export function one() { return 1; }\nexport const NAME = 'x';\n",
        "two.js": 'import {\n  one,\n  NAME,\n} from "./one.js";\nimport { one as again } from "./one.js";\none();\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def script_of(page: str) -> str:
    found = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert found
    return found[1]


def test_modules_become_one_script_and_nothing_is_fetched(folder: Path) -> None:
    page = inlined(folder, '{"text":"</script><b>"}')
    script = script_of(page)
    assert "import" not in script
    assert "export" not in script
    assert script.index("function one") < script.index("one();")
    assert "page/" not in page
    assert "<style>p { color: red }</style>" in page
    assert 'href="data:image/svg+xml;base64,' in page
    assert (
        '<script type="application/json" id="recording">{"text":"\\u003c/script>\\u003cb>"}</script>' in page
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "unsafe" not in page


def test_a_script_that_would_end_itself_is_refused(folder: Path) -> None:
    (folder / "one.js").write_text("'</script>'")
    with pytest.raises(ValueError, match="its own end tag"):
        inlined(folder, "{}")


def recording_in(page: Path) -> Any:
    pattern = r'<script type="application/json" id="recording">(.*?)</script>'
    found = re.search(pattern, page.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


def test_a_log_as_html(root: Path, tmp_path: Path) -> None:
    said = ["-d", str(root / "examples/barrier.toml"), "--policy", "none"]
    done = CliRunner().invoke(listen, [SIMULATE, *said, "--log", str(tmp_path), "--view", "none"])
    assert done.exit_code == 0
    out = tmp_path / "run.html"
    done = CliRunner().invoke(log, ["convert", "--to", "html", "-o", str(out), str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    assert "rows. html holds the messages and events" in done.stderr
    recording = recording_in(out)
    rows = {row["key"]: row for row in recording["rows"]}
    messages = [row for row in rows.values() if row["kind"] == "message"]
    assert len(messages) == 200
    assert {row["state"] for row in messages} == {"final"}
    wrong = {str(row["key"]) for row in messages if row["wrong"]}
    assert wrong
    assert set(recording["why"]) == wrong
    assert recording["hello"]["live"] is False
    assert recording["picture"]["delivery"]["overtaken"] > 0
    assert all(rows[int(key)]["name"] in lines[0] for key, lines in recording["why"].items())


def test_the_end_of_a_log_is_not_a_dead_mote(tmp_path: Path) -> None:
    """Four motes send each second, and mote 3 stops after 20 s. The feed ends at 40 s, and the station listens on."""
    setup = deployment()
    motes, gateway = Motes(setup), Gateway(setup)
    with JournalWriter(tmp_path / "run", setup, "run", "never", sources=["serial@x"]) as journal:
        for second in range(1, 41):
            for mote in range(4 if second <= 20 else 3):
                at = (second * 1000 + 200 * mote) * CRYSTAL_HZ // 1000
                for line in gateway.hear(motes.send(mote, at), at):
                    journal.append(line)
        end = gateway.last_ns + 60 * 10**9
        journal.append_counters(0, {"unread": 0}, end, WALL + end)
    out = tmp_path / "run.html"
    done = CliRunner().invoke(log, ["convert", "--to", "html", "-o", str(out), str(tmp_path / "run")])
    assert done.exit_code == 0, done.stderr
    picture = recording_in(out)["picture"]
    assert [row["mote"] for row in picture["motes"] if row["trouble"]] == [3]
    assert [text for text in picture["alarms"] if not text.startswith("mote 3 ")] == []
    assert picture["at_ms"] == (WALL + gateway.last_ns) / 1e6
