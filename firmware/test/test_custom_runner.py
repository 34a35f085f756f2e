"""Reads what the tests print (check.h), from a host program or through the emulator, and reports to PlatformIO."""

from __future__ import annotations

import re

import click
from platformio.test.exception import UnitTestError
from platformio.test.result import TestCase, TestStatus
from platformio.test.runners.base import TestRunnerBase

# The emulator colours each line of the UART and shows its newline as a dot.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CASE = re.compile(r"check: (\d+) (\w+)$")
END = re.compile(r"check: (\d+) tests, (\d+) failed$")


class CustomTestRunner(TestRunnerBase):
    EXTRA_LIB_DEPS = None  # no test library from the registry

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._complaints: list[str] = []
        self._ended = False
        command = self.project_config.get(f"env:{self.test_suite.env_name}", "test_testing_command")
        if command and self.options:
            self.options.without_uploading = True  # it runs in an emulator

    def on_testing_line_output(self, line: str) -> None:
        text = COLOUR.sub("", line).strip()
        if COLOUR.search(line):
            text = text.removesuffix(".")
        if self.options.verbose:
            click.echo(text)
        if end := END.match(text):
            self._ended = True
            if int(end[1]) != len(self.test_suite.cases):
                raise UnitTestError(f"{end[1]} tests ran, {len(self.test_suite.cases)} reported")
        elif case := CASE.match(text):
            self._on_case(case[2], int(case[1]))
        elif text:
            self._complaints.append(text)

    def _on_case(self, name: str, failures: int) -> None:
        status = TestStatus.FAILED if failures else TestStatus.PASSED
        said = "".join(f"\n  {text}" for text in self._complaints) + "\n"
        self._complaints.clear()
        case = TestCase(name, status, message=said if failures else None)
        self.test_suite.add_case(case)
        click.echo(case.humanize())

    def stage_testing(self):
        try:
            super().stage_testing()
        except UnitTestError:
            # A host program ends with 1 when a test failed. That is reported already.
            if self.test_suite.status != TestStatus.FAILED or not self._ended:
                raise
        if not self._ended and not self.options.without_testing:
            for text in self._complaints:
                click.echo(text)
            raise UnitTestError("the test program did not reach its end")
