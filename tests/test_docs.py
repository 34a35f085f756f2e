"""The files, commands and places that the documents name exist."""

import re

import pytest

from basestation.cli import COMMANDS


def documents(root):
    pages = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")
    return [*(root / page for page in pages), *sorted((root / "docs").rglob("*.md"))]


def test_links_lead_somewhere(root):
    for page in documents(root):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_commands_named_exist(root):
    for page in documents(root):
        for name in re.findall(r"`(?:\$ )?basestation ([a-z]+)", page.read_text()):
            assert name in COMMANDS, f"{page.name}: basestation {name}"


def test_lines_wrap_at_120(root):
    for page in documents(root):
        for number, line in enumerate(page.read_text().splitlines(), start=1):
            loose = line.lstrip().startswith(("|", '{"message"')) or "](" in line
            assert len(line) <= 120 or loose, f"{page.name}:{number}"


def test_tables_are_not_folded_into_text(root):
    for page in documents(root):
        for number, line in enumerate(page.read_text().splitlines(), start=1):
            assert "|---" not in line or re.fullmatch(r"\s*\|[-:|\s]+\|\s*", line), f"{page.name}:{number}"


def test_places_within_pages_exist(root):
    for page in documents(root):
        for target, place in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()):
            text = ((page.parent / target) if target else page).read_text()
            heads = [
                re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-")
                for h in re.findall(r"^#+ (.*)", text, re.M)
            ]
            assert place in heads, f"{page.name}: {target}#{place}"


@pytest.mark.parametrize("target", ["demo", "test", "check", "test-all", "bench", "lint", "figures", "lock"])
def test_targets_named_exist(root, target):
    assert re.search(rf"^{target}:", (root / "Makefile").read_text(), re.MULTILINE)
