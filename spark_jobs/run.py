"""Run a job: `spark-submit spark_jobs/run.py JOB ...`, or `python -m spark_jobs.run JOB ...` on this machine alone.

A job is a module with `configure(parser)`, which adds its options, and `main(arguments)`, which returns an exit code.
Its work is in functions that do not know the command line; most do not know Spark.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

# name: module, and what it does. Modules are imported when their job is asked for.
JOBS: dict[str, tuple[str, str]] = {
    "ingest": ("spark_jobs.tables.ingest", "turn journals, traces and testbed logs into tables"),
    "links": (
        "spark_jobs.health.links",
        "show deliveries, losses, copies, reboots and signal strength of each mote and link over time",
    ),
    "clocks": ("spark_jobs.health.clocks", "measure the epsilon and the delta that a deployment really kept"),
    "watch": (
        "spark_jobs.health.watch",
        "follow a growing folder of logs and keep its link health up to date",
    ),
    "continuum": ("spark_jobs.measuring.continuum", "measure each stamp, policy and phi on a trace"),
    "recommend": (
        "spark_jobs.advice.recommend",
        "choose the smallest stamp and the shortest wait within a tolerance",
    ),
    "figures": ("spark_jobs.figures", "simulate the paper's figures on all workers"),
    "compare": ("spark_jobs.compare", "compare our schemes with those of other papers, on the same events"),
}


def parser_for(job: str, program: str = "run.py") -> argparse.ArgumentParser:
    """The parser for the options of one job, for callers that start it in another way."""
    module, summary = JOBS[job]
    parser = argparse.ArgumentParser(prog=f"{program} {job}", description=summary)
    import_module(module).configure(parser)
    parser.set_defaults(job=job)
    return parser


def run(job: str, arguments: Sequence[str], program: str = "run.py") -> int:
    """Run a job. A fault of its input is one line on standard error and exit code 1; a wrong option is 2."""
    from spark_jobs.session import JobError, WrongOption, note

    options = parser_for(job, program).parse_args(arguments)
    try:
        code: Any = import_module(JOBS[job][0]).main(options)
    except JobError as error:
        note(f"{job}: {error}")
        return 2 if isinstance(error, WrongOption) else 1
    except OSError as error:
        note(f"{job}: {error.filename or 'a file'}: {error.strerror or error}")
        return 1
    except UnicodeEncodeError as error:
        note(f"{job}: {error.object!r}: a name that is not UTF-8")
        return 1
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        said = getattr(error, "java_exception", error)
        note(f"{job}: Spark says: {str(said).strip().splitlines()[0]}")
        return 1
    except KeyboardInterrupt:
        note(f"{job}: interrupted")
        return 130
    return int(code or 0)


def main(arguments: Sequence[str], program: str = "run.py") -> int:
    """Run the command line; `program` is the name that the user typed."""
    lines = "\n".join(f"  {name:12} {summary}" for name, (_, summary) in JOBS.items())
    parser = argparse.ArgumentParser(
        prog=program,
        description="Analyse logs and traces, with Spark where there is much to do.",
        epilog=f"jobs:\n{lines}\n\n{program} JOB --help shows a job's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", choices=JOBS, metavar="JOB")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...")
    chosen = parser.parse_args(arguments)
    return run(chosen.job, chosen.rest, program)


if __name__ == "__main__":
    # spark-submit runs this file by its path: the packages are beside it, or in --py-files.
    root = Path(__file__).resolve().parents[1]
    if (root / "spark_jobs" / "__init__.py").exists():
        sys.path[0] = str(root)
    sys.exit(main(sys.argv[1:]))
