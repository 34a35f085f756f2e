"""`basestation log convert`: one run's log in another form."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from basestation.cli import common
from basestation.cli.log_runs import HOLES_SHOWN, LogFaults, deployment_to_read, folder_argument
from basestation.journal.reader import Journal, read_journal
from packet_formats.phrases import many

if TYPE_CHECKING:
    from basestation.traces.files import Trace
    from packet_formats.deployment import Deployment

FORMATS = ("parquet", "ndjson", "csv", "pcap", "shiviz", "dot", "html")
DECIDED = "only html plays the run again: for the other forms `basestation log decide --key FILE` checks MICs"


@click.command(
    epilog=common.example(
        """
        basestation log convert --to csv -o run.csv logs/20250301T120000Z-1f2e3d
        basestation log convert --to pcap -o run.pcap logs/20250301T120000Z-1f2e3d
        basestation log convert --to parquet -o trace logs/20250301T120000Z-1f2e3d
        basestation log convert --to html -o run.html logs/20250301T120000Z-1f2e3d
        """
    )
)
@folder_argument
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="The form to write.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, allow_dash=True),
    default=Path("-"),
    help="File to write (parquet: a folder). [default: standard output]",
)
@common.deployment_option(required=False)
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="html: the network's key, if its messages have MICs; the page then leaves out forged messages.",
)
def convert(folder: Path, form: str, output: Path, deployment: Path | None, key: Path | None) -> None:
    """Turn one run's log into another form.

    parquet (a trace) and csv hold the messages; ndjson every record; pcap the frames on the air for Wireshark; shiviz
    and dot (for Graphviz) the causal graph as far as it is known; html is the live page in one file. The command prints
    on standard error what a form leaves out. FOLDER may also be a trace, for csv, shiviz and dot. Forged messages are
    left out, except from ndjson and pcap, if the log says which ones are forged: `log decide --key FILE` decides that.
    """
    from basestation.journal.convert import HOLDS

    faults = LogFaults()
    if (folder / "messages.parquet").exists():
        done = _convert_trace(folder, form, output)
    else:
        journal = read_journal(folder)
        described = deployment_to_read(journal, deployment)
        if form == "html" and described is not None and described.security.mic:
            described = common.with_key(described, None, key, needed=False)
            if described.key is None:
                common.note(
                    f"{folder}: the page shows forged messages, too: give the network's key by --key FILE"
                )
        elif key is not None:
            common.fail(DECIDED)
        done = _convert_journal(journal, form, output, described, faults)
    common.note(f"{folder}: {done}. {form} holds {HOLDS[form]}")
    for hole in faults.holes[:HOLES_SHOWN]:
        common.note(str(hole), style="yellow")
    if faults.lacks:
        common.note(f"{folder}: the log has {faults.lacks}: so has the {form}", style="yellow")


def _convert_trace(folder: Path, form: str, output: Path) -> str:
    from basestation.traces.files import read_trace

    if form not in ("csv", "shiviz", "dot"):
        common.fail(f"{folder}: a trace has no frames to make {form} from; a journal has")
    return _write_messages(read_trace(folder), form, output)


def _convert_journal(
    journal: Journal, form: str, output: Path, described: Deployment | None, faults: LogFaults
) -> str:
    from basestation.journal.air_capture import write_pcap
    from basestation.journal.convert import trace_of, write_ndjson

    if form == "ndjson":
        with _writing(output, "w") as file:
            return many(write_ndjson(journal, described, file, faults), "record")
    deployment = described or journal.deployment
    if form == "pcap":
        with _writing(output, "wb") as file:
            return many(write_pcap(journal, deployment, file, faults), "frame")
    if form == "html":
        return _write_html(journal, deployment, output, faults)
    trace = trace_of(journal, deployment, faults, lambda text: common.note(f"{journal.folder}: {text}"))
    return _write_messages(trace, form, output)


def _write_html(journal: Journal, deployment: Deployment, output: Path, faults: LogFaults) -> str:
    from basestation.web.export import write_html

    with _writing(output, "w") as file:
        done = write_html(journal, deployment, file, faults)
    return f"{many(done.rows, 'row')}" + (
        ", the last ones: the run has more than a page holds" if done.cut else ""
    )


def _write_messages(trace: Trace, form: str, output: Path) -> str:
    from basestation.journal.convert import write_csv
    from basestation.journal.drawn_graph import write_dot, write_shiviz
    from basestation.traces.files import write_trace

    if form == "parquet":
        if str(output) == "-":
            common.fail("a trace is a folder: name it with --output")
        write_trace(trace, output)
        return many(len(trace.messages), "message")
    with _writing(output, "w") as file:
        if form == "csv":
            return many(write_csv(trace, file), "message")
        write = write_shiviz if form == "shiviz" else write_dot
        known = write(trace.messages, trace.deployment, file)
    if known.complete == known.messages:
        return f"{many(known.messages, 'message')}, all causes known"
    text = f"{many(known.messages, 'message')}, all causes known of {known.complete} of them"
    return f"{text}: unknown causes are not drawn"


@contextmanager
def _writing(output: Path, mode: str) -> Iterator[IO[Any]]:
    """Open standard output, a device or a pipe as it is; a file, behind a link too, appears only when complete."""
    if str(output) == "-":
        yield sys.stdout.buffer if mode == "wb" else sys.stdout
        return
    output = output.resolve()
    if output.exists() and not output.is_file():
        with output.open(mode, encoding=None if mode == "wb" else "utf-8") as file:
            yield file
        return
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with partial.open(mode, encoding=None if mode == "wb" else "utf-8") as file:
            yield file
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
