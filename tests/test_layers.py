"""Every import in the code is allowed by the table in docs/architecture.md."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = re.compile(r"^\| `([\w.]+)` \|.*\| ([^|]*) \|$", re.MULTILINE)


def full(name: str) -> str:
    """A package of the base station is named there without the prefix."""
    tops = ("basestation", "packet_formats", "spark_jobs", "tools")
    return name if name.partition(".")[0] in tops else f"basestation.{name}"


def layers() -> dict[str, set[str]]:
    """Each package of the table, and the packages that it may import."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.split("## Who may import whom")[1].split("\n## ")[0]
    found = {
        full(name): {full(other) for other in re.findall(r"`([\w.]+)`", allowed)}
        for name, allowed in TABLE.findall(section)
    }
    assert set().union(*found.values()) <= set(found), "a package that is allowed has no row of its own"
    return found


LAYERS = layers()
OURS = tuple({name.partition(".")[0] for name in LAYERS})


def package_of(module: str) -> str:
    """The most specific row that a module belongs to."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in names if name in LAYERS), module)


def imports(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, anywhere in it, types and lazy imports included."""
    here = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    base = here.split(".") if path.name == "__init__.py" else here.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = base[: len(base) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def all_imports() -> Iterator[tuple[str, str, Path]]:
    """(importing package, imported package, file) of every import between two rows of the table."""
    for top in OURS:
        for path in sorted((ROOT / top).rglob("*.py")):
            mine = package_of(
                ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            )
            for module in imports(path):
                if module.partition(".")[0] in OURS and package_of(module) != mine:
                    yield mine, package_of(module), path


def test_every_import_is_allowed_by_the_table() -> None:
    forbidden = sorted(
        {
            f"{path.relative_to(ROOT)} imports {theirs}"
            for mine, theirs, path in all_imports()
            if theirs not in LAYERS.get(mine, set())
        }
    )
    assert not forbidden


def test_every_package_has_a_row() -> None:
    for top in OURS:
        for path in (ROOT / top).rglob("__init__.py"):
            package = ".".join(path.parent.relative_to(ROOT).parts)
            assert package_of(package) in LAYERS, package


def test_every_permission_of_the_table_is_used() -> None:
    """Each permission in the table has an import that needs it."""
    used = {(mine, theirs) for mine, theirs, _ in all_imports()}
    assert {(mine, theirs) for mine, allowed in LAYERS.items() for theirs in allowed} - used == set()


def test_no_two_packages_import_each_other() -> None:
    def below(name: str, seen: tuple[str, ...] = ()) -> None:
        assert name not in seen, " -> ".join((*seen, name))
        for other in LAYERS[name]:
            below(other, (*seen, name))

    for name in LAYERS:
        below(name)


@pytest.mark.parametrize(
    "name",
    [
        "schemes",
        "layout",
        "deployment",
        "cheader",
        "boards",
        "cc1000",
        "power",
        "records",
        "phrases",
        "schedule",
    ],
)
def test_the_firmware_build_needs_the_standard_library_alone(name: str) -> None:
    """PlatformIO's own Python runs these."""
    tree = ast.parse((ROOT / "packet_formats" / f"{name}.py").read_text())
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in names:
            assert module.partition(".")[0] in {*sys.stdlib_module_names, "packet_formats", "__future__"}, (
                module
            )
