"""A recorded run as one HTML file: the page with its styles and scripts, and the run's rows."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections import deque
from pathlib import Path
from typing import IO, NamedTuple

from basestation.journal.reader import Journal, JournalNote, Report
from basestation.live.deciding import station_of
from basestation.live.guard import Verdict
from basestation.live.happenings import Delivered, Happening, Name, Violation
from basestation.live.runner import Player
from basestation.web.feed import Feed, hello_of, picture_of
from basestation.web.rows import RowStore, encode
from packet_formats.deployment import Deployment
from packet_formats.phrases import many

PAGE = Path(__file__).parent / "page"
MOST_ROWS = 50_000  # in a file: 20 MB
TAKEN_AT_ONCE = 1000

STYLE = re.compile(r'<link\b[^>]*\brel="stylesheet"[^>]*\bhref="/?page/([\w.-]+)"[^>]*>')
SCRIPT = re.compile(r'[ \t]*<script\b[^>]*\btype="module"[^>]*\bsrc="/?page/([\w.-]+)"[^>]*>\s*</script>\n?')
PICTURE = re.compile(r'((?:src|href)=")/?page/([\w.-]+\.(?:svg|png))"')
IMPORT = re.compile(r"^import\b[^;]*;[ \t]*\n?", re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async |function|class|const|let)\b)", re.MULTILINE)


class Exported(NamedTuple):
    """The number of rows in the file, and whether older rows did not fit."""

    rows: int
    cut: bool


class _Recorder:
    """A sink that keeps the rows of a run, and the explanation of each message in a violation."""

    def __init__(self, feed: Feed) -> None:
        self.rows = RowStore()
        self.why: dict[int, tuple[str, ...]] = {}
        self._feed = feed

    def take(self, happening: Happening) -> None:
        self._feed.take(happening)
        if isinstance(happening, Violation):
            for name in (happening.message, happening.cause):
                self._explain(name)
        elif isinstance(happening, Delivered):
            self._explain(happening.name)
        if len(self._feed.changes) > TAKEN_AT_ONCE:
            self._merge()

    def close(self) -> None:
        self._merge()

    def _merge(self) -> None:
        self.rows.merge(self._feed.changes)
        self._feed.changes.clear()

    def _explain(self, name: Name) -> None:
        """Keep the explanation of a message that was delivered and is in a violation."""
        passages = self._feed.passages
        passage = passages.passages.get(name)
        if passage is None or passage.delivered is None or not passage.violations:
            return
        node = passages.node(name)
        told = () if node is None or node.dropped else passages.explanation(node).text
        self.why[passage.arrived.number] = (*(one.text for one in passage.violations), *told)


def write_html(
    journal: Journal,
    deployment: Deployment,
    file: IO[str],
    report: Report,
) -> Exported:
    """Play a run back, and write it as a page that needs no server."""
    header = journal.header
    station = station_of(journal, deployment)
    feed = Feed(station)
    recorder = _Recorder(feed)
    player = Player(station, journal.steps(report, deployment), [recorder])
    asyncio.run(player.run())
    refused = station.timeline.guard.verdicts if station.timeline.guard is not None else {}
    if wrong := refused.get(Verdict.FORGED, 0) + refused.get(Verdict.REPLAYED, 0):
        report(JournalNote(journal.folder, f"{many(wrong, 'message')} forged or replayed, and left out"))
    texts = deque(recorder.rows.all(), MOST_ROWS)
    cut = recorder.rows.dropped or len(texts) == MOST_ROWS
    kept = {int(found[1]) for text in texts if (found := re.match(r'\{"key":(\d+),', text))}
    why = {key: lines for key, lines in recorder.why.items() if key in kept}
    parts = {
        "hello": encode(
            hello_of(station, header.run, header.started_wall_ns / 1e6, live=False, control=False)
        ),
        "rows": f"[{','.join(texts)}]",
        "picture": encode(picture_of(feed.view(player.snapshot(), -1), 0)),
        "why": encode(why),
    }
    recording = "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}"
    file.write(inlined(PAGE, recording))
    return Exported(len(texts), cut)


def inlined(folder: Path, recording: str) -> str:
    """The page of a folder as one text, with a recording in it. The recording cannot contain markup."""
    page = (folder / "index.html").read_text("utf-8")
    styles = "\n".join((folder / name).read_text("utf-8") for name in STYLE.findall(page))
    script = "\n".join(_plain_script(folder / name) for name in SCRIPT.findall(page))
    if "</script" in script.lower() or "</style" in styles.lower():
        raise ValueError(f"{folder}: a script or style of the page contains its own end tag")
    page = SCRIPT.sub("", STYLE.sub("", page))
    page = PICTURE.sub(lambda found: f'{found[1]}{_data_uri(folder / found[2])}"', page)
    allowed = f"script-src {_hash(script)}; style-src {_hash(styles)}; img-src data:"
    head = (
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; {allowed}; base-uri 'none'\">\n"
        f"<style>{styles}</style>\n"
    )
    data = recording.replace("<", "\\u003c")
    tail = f'<script type="application/json" id="recording">{data}</script>\n<script type="module">{script}</script>\n'
    page = _before("</head>", head, page)
    return _before("</body>", tail, page)


def _before(tag: str, text: str, page: str) -> str:
    start, found, rest = page.rpartition(tag)
    return start + text + found + rest if found else page + text


def _plain_script(path: Path) -> str:
    """A module without its imports and exports: all modules become one script."""
    return EXPORT.sub("", IMPORT.sub("", path.read_text("utf-8")))


def _data_uri(path: Path) -> str:
    kind = {".svg": "image/svg+xml", ".png": "image/png"}[path.suffix]
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
