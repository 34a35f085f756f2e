"""`basestation ports`: list the serial ports of this machine, and why one can't be opened."""

from __future__ import annotations

from typing import Any

import click
from rich.table import Table

from basestation.cli import common
from basestation.sources import attached_ports


@click.command(
    epilog=common.example(
        """
        basestation ports
        basestation ports --json
        """
    )
)
@common.json_option
def command(as_json: bool) -> None:
    """List the attached serial ports, the likeliest gateway first, and try to open each.

    With --json it prints one object for each port; `trouble` is null, gone, permission, busy or failed.
    """
    found = sorted(attached_ports.attached(), key=lambda port: (-port.rank, port.device))
    rows = [(port, attached_ports.trouble_with(port.device)) for port in found]
    if as_json:
        for port, trouble in rows:
            common.emit_json(_plain(port, trouble))
        return
    if not rows:
        common.note("No serial port is attached. Is the board plugged in, and the cable a data cable?")
        return
    common.out.print(_table(rows))
    for _, trouble in rows:
        if trouble is not None:
            common.note(trouble.text, style="yellow")
    likely = attached_ports.candidates(found)
    if len(likely) == 1:
        common.note(f"Without a source given, serial@{likely[0].device} is used.")


def _plain(port: attached_ports.SerialPort, trouble: attached_ports.Trouble | None) -> dict[str, Any]:
    return {
        "device": port.device,
        "source": f"serial@{port.device}",
        "usb": port.usb,
        "serial_number": port.serial_number,
        "interface": port.interface or None,
        "description": port.description or None,
        "board": port.board or None,
        "gateway": port.rank > attached_ports.UNLIKELY,
        "trouble": None if trouble is None else trouble.kind,
        "reason": None if trouble is None else trouble.text,
    }


def _table(rows: list[tuple[attached_ports.SerialPort, attached_ports.Trouble | None]]) -> Table:
    table = common.table("port", "USB id", "serial number", "description", "likely", "open?")
    for port, trouble in rows:
        state = "yes" if trouble is None else f"no: {trouble.kind}"
        table.add_row(
            port.device, port.usb or "", port.serial_number or "", port.description, port.board, state
        )
    return table
