"""Text from outside, made safe for a terminal: it cannot hold escape sequences; only our own styles can."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment

from packet_formats.phrases import visible


def visible_segments(segments: Iterable[Segment]) -> Iterator[Segment]:
    """The same segments, with a sign in place of each character that would steer the terminal."""
    for one in segments:
        yield one if one.control else Segment(visible(one.text), one.style)


class Visible:
    """Content made safe for a console of another library."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        yield from visible_segments(console.render(self._content, options))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._content)
