"""What the documents promise is there: files, commands, and the tables that a command makes."""

import re

import pytest

from basestation.cli import COMMANDS


def test_the_algorithms_page_holds_the_tables_that_the_command_made(root):
    page = (root / "docs" / "algorithms.md").read_text()
    for made in ("claims.md", "tables.md"):
        assert (root / "docs" / "figures" / made).read_text().strip() in page, made


def documents(root):
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def test_links_lead_somewhere(root):
    for page in documents(root):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_commands_named_exist(root):
    for page in documents(root):
        for name in re.findall(r"`(?:\$ )?basestation ([a-z]+)", page.read_text()):
            assert name in COMMANDS, f"{page.name}: basestation {name}"


@pytest.mark.parametrize("target", ["demo", "test", "test-all", "bench", "lint", "figures", "lock"])
def test_targets_named_exist(root, target):
    assert re.search(rf"^{target}:", (root / "Makefile").read_text(), re.MULTILINE)
