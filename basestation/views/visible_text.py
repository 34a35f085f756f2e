"""Text from outside on a terminal: names, file names, errors and values never steer it; only our own styles do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment

from packet_formats.phrases import visible


def visible_segments(segments: Iterable[Segment]) -> Iterator[Segment]:
    """The same segments, in which a sign stands for each character that would steer the terminal."""
    for one in segments:
        yield one if one.control else Segment(visible(one.text), one.style)


class Visible:
    """Something to show, for a console that is not ours."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        yield from visible_segments(console.render(self._content, options))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._content)
