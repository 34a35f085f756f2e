"""Print messages in causal order: `python examples/observe.py [SOURCE]`. docs/reference/sources.md lists the
sources."""

import asyncio
import sys
from pathlib import Path

from basestation.live.happenings import Delivered, Happening
from basestation.live.runner import Runner
from basestation.live.station import Station
from basestation.sources import SourceOptions, open_source
from packet_formats.deployment import load
from packet_formats.layout import layout_of
from packet_formats.values import data_text


class Print:
    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delivered):
            data = data_text(layout, happening.data.data)
            print(happening.name, f"held {happening.held_ms:.1f} ms", data)

    def close(self) -> None:
        print("done")


deployment = load(Path(__file__).with_name("micaz.toml"))
layout = layout_of(deployment)
text = sys.argv[1] if len(sys.argv) > 1 else "simulate@?messages=20&pace=0"
source = open_source(text, 0, SourceOptions(deployment))
asyncio.run(Runner(Station(deployment), [source], [Print()]).run())
