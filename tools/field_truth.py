"""Shows how much of happened-before each stamp tells on the testbed, and whether that is true.

    python -m tools.field_truth [SCHEME...] [--seconds 20] [--seeds 2]

For each scheme ten emulated motes run for some seconds. The causal graph is built from what arrived at the gateway and
compared with the flight recorders. The exit code is 1 if the graph is wrong anywhere.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from basestation.testbed.field_check import check_graph
from basestation.testbed.through_station import run_field
from tools.schemes_table import MOTES, RATE, SCHEMES, deployment_of


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("schemes", nargs="*", default=list(SCHEMES), metavar="SCHEME")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    right = True
    for scheme in options.schemes:
        deployment = deployment_of(scheme)
        for seed in range(1, options.seeds + 1):
            run = run_field(deployment, MOTES, options.seconds, RATE, seed=seed)
            found = check_graph(run.arrivals, deployment)
            right &= found.is_right
            share = 100 * found.complete / max(1, found.messages)
            print(f"{scheme}, seed {seed}: {share:.1f}% complete; {asdict(found)}", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
