"""Print messages in causal order: `python examples/observe.py [SOURCE or LOG]`; docs/reference/sources.md lists the
sources."""

import sys
from pathlib import Path

import basestation

site = Path(__file__).with_name("micaz.toml")
source = sys.argv[1] if len(sys.argv) > 1 else "simulate@?messages=20&pace=0"
try:
    messages = basestation.replay(source) if Path(source).is_dir() else basestation.listen(source, site)
    for message in messages:
        print(message.name, f"held {message.held_ms:.1f} ms", message.values or message.data.hex())
except basestation.BasestationError as error:
    sys.exit(str(error))
