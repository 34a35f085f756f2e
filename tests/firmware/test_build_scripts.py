"""What a build takes from its deployment, and how it finds its tools: the scripts that PlatformIO calls."""

import json
import os
import re

import build_layout
import path_cppcheck
import pypi_scons
import pytest


def test_only_the_owner_can_read_the_key_in_the_build_folder(root, tmp_path):
    """No key's file, one that others may read, and no key any more: each is seen."""
    text = (root / "examples/micaz.toml").read_text()
    path, key, build = tmp_path / "site.toml", tmp_path / "site.key", tmp_path / "build"
    target = build / "include" / build_layout.KEY_HEADER
    path.write_text(text + '\n[security]\nmic = 4\nkey = "site.key"\n')
    deployment, header = build_layout.read(root, path, "micaz")
    with pytest.raises(build_layout.BuildError, match=r"site\.key: No such file"):
        build_layout.write_key(root, path, deployment, build)
    key.write_text("00112233445566778899aabbccddeeff\n")
    key.chmod(0o644)
    with pytest.raises(build_layout.BuildError, match=r"chmod 600") as refused:
        build_layout.write_key(root, path, deployment, build)
    assert "00112233" not in str(refused.value)
    key.chmod(0o600)
    build_layout.write_key(root, path, deployment, build)
    assert target.stat().st_mode & 0o777 == 0o600
    assert build.stat().st_mode & 0o777 == 0o700, "images hold the key too"
    assert "0x00, 0x11, 0x22" in target.read_text()
    assert "0x00, 0x11, 0x22" not in header
    path.write_text(text)
    build_layout.write_key(root, path, build_layout.read(root, path, "micaz")[0], build)
    assert not target.exists()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("epsilon = 3", "epsilon = -3", "clock.epsilon = -3"),
        ("[clock]", "[clok]", "clok"),
        ('scheme = "shlc"', 'scheme = "vc"', "stamp.scheme"),
        ('board = "micaz"', 'board = "mica2"', "builds for micaz"),
        ("[network]", "network", "mine.toml"),
    ],
)
def test_the_reason_is_named(root, tmp_path, old, new, why):
    path = tmp_path / "mine.toml"
    text = (root / "examples" / "micaz.toml").read_text()
    if "mica2" in new:
        text = re.sub(r"^channel.*\n", "", text, flags=re.MULTILINE)
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(build_layout.BuildError, match=re.escape(why)):
        build_layout.read(root, path, "micaz")


def test_a_deployment_that_is_not_there_is_named(root, tmp_path):
    with pytest.raises(build_layout.BuildError, match=r"none\.toml: No such file"):
        build_layout.read(root, tmp_path / "none.toml", "micaz")


def test_cppcheck_of_the_registry_is_used_and_requested_if_missing(tmp_path, monkeypatch):
    pytest.importorskip("platformio")
    folder = tmp_path / path_cppcheck.NAME
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not path_cppcheck.provide(tmp_path)
    assert not folder.exists()
    folder.mkdir()
    for name in ("package.json", "cppcheck"):
        (folder / name).write_text("theirs")
    assert path_cppcheck.provide(tmp_path)
    assert {file.read_text() for file in folder.iterdir()} == {"theirs"}


def test_which_app_is_built(root, tmp_path, monkeypatch):
    monkeypatch.delenv("CAUSEWAY_APP", raising=False)
    apps = root / "firmware" / "apps"
    assert build_layout.find_app(root, "mote") == apps / "mote"
    (tmp_path / "mote").mkdir()
    (tmp_path / "mote" / "app.c").write_text("")
    assert build_layout.find_app(root, str(tmp_path / "mote")) == tmp_path / "mote"
    monkeypatch.setenv("CAUSEWAY_APP", str(tmp_path / "mote"))
    assert build_layout.find_app(root, "mote") == tmp_path / "mote"
    assert build_layout.find_app(root, "gateway") == apps / "gateway"
    assert build_layout.app_sources(root, apps / "gateway") == [apps / "gateway"]
    assert build_layout.app_sources(root, tmp_path / "mote") == [
        tmp_path / "mote",
        root / "firmware" / "net" / "mote",
    ]
    wrong = {
        "alram": "no such folder: .*/alram",
        str(tmp_path / "none"): "no such folder: .*/none",
        str(tmp_path): "holds no C",
        "gateway": "that is the gateway's name, not a mote's",
        str(tmp_path / "gateway"): "that is the gateway's name, not a mote's",
    }
    for word, why in wrong.items():
        monkeypatch.setenv("CAUSEWAY_APP", word)
        with pytest.raises(build_layout.BuildError, match=f"{why}; in firmware/apps there are alarm, mote"):
            build_layout.find_app(root, "mote")


class TestScons:
    """PlatformIO's SCons without its registry."""

    @pytest.fixture(autouse=True)
    def _wanted(self, monkeypatch):
        pytest.importorskip("platformio")
        monkeypatch.setattr(pypi_scons, "_is_wanted", lambda number: number == "4.11.1")

    def test_the_lock_names_it(self, root):
        number, entry = pypi_scons.pin((root / "requirements.lock").read_text())
        assert f'scons=={number}"' in (root / "pyproject.toml").read_text()
        assert entry.startswith(f"scons=={number} ")
        assert "--hash=sha256:" in entry
        assert "via" not in entry

    def test_the_registry_s_numbers(self):
        assert pypi_scons.registry_number("4.11.1") == "4.41101.0"
        assert pypi_scons.registry_number("4.8.1") == "4.40801.0"

    def test_one_beside_platformio_is_used(self, tmp_path, monkeypatch):
        monkeypatch.setattr(pypi_scons, "_installed", lambda: "4.11.1")
        assert pypi_scons.provide(tmp_path)
        assert json.loads((tmp_path / "tool-scons" / "package.json").read_text())["version"] == "4.41101.0"
        assert not (tmp_path / "tool-scons" / "lib").exists()

    def test_scons_from_the_registry_is_not_changed(self, tmp_path):
        folder = tmp_path / "tool-scons"
        folder.mkdir()
        for name in ("package.json", "scons.py"):
            (folder / name).write_text("theirs")
        assert pypi_scons.provide(tmp_path)
        assert {file.read_text() for file in folder.iterdir()} == {"theirs"}

    def test_without_one_pip_is_asked_and_then_the_registry(self, tmp_path, monkeypatch, capfd):
        monkeypatch.setattr(pypi_scons, "_installed", lambda: "4.11.1")
        assert pypi_scons.provide(tmp_path)
        monkeypatch.setattr(pypi_scons, "_installed", lambda: None)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        assert not pypi_scons.provide(tmp_path)
        assert not (tmp_path / "tool-scons").exists()
        assert "Asking PlatformIO's registry" in capfd.readouterr().err

    def test_another_platformio_s_is_left_to_the_registry(self, tmp_path, monkeypatch):
        monkeypatch.setattr(pypi_scons, "_is_wanted", lambda number: False)
        assert not pypi_scons.provide(tmp_path)
