"""`testbed@[DEPLOYMENT]?motes=10&seed=3`: the real firmware on emulated motes, in a process that we start.

Settings are the long options of `basestation testbed`. Its gateway's serial line comes over TCP; the run begins when we
are connected and ends when we close, or after `seconds`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from basestation.sources.base import Source, SourceError, SourceOptions, Spec
from basestation.sources.line import Connection, FrameWire, LineSource
from basestation.sources.tcp import dial
from packet_formats.framing import FrameCounters
from packet_formats.keys import write_key

SETTINGS = (
    *("motes", "topology", "range", "noise", "rate", "app"),
    *("seconds", "seed", "pace", "faults", "sensors", "truth", "pcap", "keep"),
)
COMMAND = (sys.executable, "-m", "basestation", "testbed", "--gateways", "1")
END_SECONDS = 25.0
_AT = re.compile(r"network@127\.0\.0\.1:(\d+)")


def make(spec: Spec, gateway: int, options: SourceOptions) -> Source:
    if "gateways" in spec.settings:
        raise spec.wrong(
            "is one gateway: for several start `basestation testbed DEPLOYMENT --gateways 2 --port 7000 --wait` "
            "and listen to network@localhost:7000 and network@localhost:7001"
        )
    spec.known(*SETTINGS)
    return TestbedSource(spec, gateway, options)


class TestbedSource(LineSource):
    """The line of a testbed. It does not come back, because the motes end with it."""

    __test__ = False  # its name is no sign of a test

    def __init__(self, spec: Spec, gateway: int, options: SourceOptions) -> None:
        super().__init__(spec.text, gateway, self._start, replace(options, patient=False))
        self._spec = spec
        self._folder: TemporaryDirectory[str] | None = None
        self._process: Process | None = None
        self._chatter: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await super().close()
        if self._process is not None:
            await self._end(self._process)
        if self._chatter is not None:
            await self._chatter
        if self._folder is not None:
            self._folder.cleanup()

    async def _is_over(self) -> bool:
        """A testbed that ends in order has come to the end of its `seconds`."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._process.wait(), END_SECONDS) == 0
        return False

    async def _reconnect(self) -> bool:
        return False

    async def _start(self, counters: FrameCounters) -> Connection:
        process = self._process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *self._arguments(),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            env=os.environ | {"CAUSEWAY_TESTBED_PARENT": str(os.getpid())},
            start_new_session=True,  # Ctrl-C is ours to tell it of, or its end looks like a lost line
        )
        try:
            port = await self._port(process)
            link = await dial(self.text, "127.0.0.1", port)
        except BaseException:
            await self._end(process)
            raise
        self._chatter = asyncio.create_task(self._pass_on(process))
        return Connection(link, FrameWire(counters))

    def _arguments(self) -> list[str]:
        settings = {"pace": "1", **self._spec.settings}
        words = ["--port", "0", "--wait"]
        for name, value in settings.items():
            words += [f"--{name}", value]
        deployment = self._spec.where or self._described()
        return [*words, "--", deployment] if deployment else words

    def _described(self) -> str:
        """Write the deployment of the run to a file for the testbed."""
        if self._options.deployment is None:
            return ""
        self._folder = TemporaryDirectory(prefix="causeway-")
        path = Path(self._folder.name) / "deployment.toml"
        path.write_text(self._options.deployment.to_toml())
        if self._options.deployment.key is not None:
            write_key(self._options.deployment.key, path.with_name(self._options.deployment.security.key))
        return str(path)

    async def _port(self, process: Process) -> int:
        """Read its output until it says its port; it may have to build the firmware first.

        Its reason begins with `Error: `; what follows, such as a compiler's words, is passed on.
        """
        last, reason = "it did not say why", ""
        assert process.stderr is not None
        while raw := await process.stderr.readline():
            last = raw.decode(errors="replace").strip() or last
            if found := _AT.search(last):
                return int(found[1])
            self._options.say(last)
            reason = reason or (last if last.startswith("Error: ") else "")
        code = await process.wait()
        why = (reason or last).removeprefix("Error: ").rstrip(":")
        raise SourceError(f"{self.text}: the testbed ended with status {code}: {why}")

    async def _pass_on(self, process: Process) -> None:
        assert process.stderr is not None
        while line := await process.stderr.readline():
            self._options.say(line.decode(errors="replace").strip())

    async def _end(self, process: Process) -> None:
        """End the testbed. It first writes the rest of its truth log; it is killed only if it hangs."""
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), END_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
