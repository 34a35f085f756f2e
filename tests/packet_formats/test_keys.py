"""A key: its file, the readers of that file, and that nothing shows it."""

from __future__ import annotations

import os
import pickle
import traceback
from pathlib import Path

import pytest

from packet_formats.__main__ import main
from packet_formats.deployment import from_dict
from packet_formats.keys import Key, KeyFault, key_of, new_key, read_key
from packet_formats.layout import layout_of
from packet_formats.seal import Seal
from tests.packet_formats.test_seal import sealed_tables

DIGITS = "00112233445566778899aabbccddeeff"


def key_file(folder: Path, text: str = DIGITS + "\n", mode: int = 0o600, name: str = "site.key") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def test_only_the_owner_reads_a_new_key_and_it_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "site.key"
    before = os.umask(0)
    try:
        key = new_key(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(path).secret == key.secret
    text = path.read_text()
    with pytest.raises(KeyFault, match="never overwritten"):
        new_key(path)
    assert path.read_text() == text
    assert new_key(tmp_path / "other.key").secret != key.secret


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o700, 0o620])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(KeyFault, match="only its owner may read a key; chmod 600"):
        read_key(key_file(tmp_path, mode=mode))


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFault, match="is not a plain file"):
        read_key(tmp_path / "pipe")


@pytest.mark.parametrize(
    "text", ["", DIGITS[:-1], DIGITS + "0", "g" + DIGITS[1:], DIGITS + "\n\n\nx", " " + DIGITS]
)
def test_a_file_without_a_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(KeyFault, match="holds no key") as caught:
        read_key(key_file(tmp_path, text))
    shown = "".join(traceback.format_exception(caught.value))
    assert text.strip() == "" or text.strip() not in shown


def test_a_key_is_read_once_more_and_shows_itself_nowhere(tmp_path: Path) -> None:
    key = read_key(key_file(tmp_path, DIGITS.upper(), 0o400))
    secret = bytes.fromhex(DIGITS)
    assert key.secret == secret == pickle.loads(pickle.dumps(key)).secret
    seal = Seal(key, layout_of(from_dict(sealed_tables())))
    for shown in (repr(key), str(key), f"{key}", repr([key]), repr(seal)):
        assert DIGITS not in shown.lower()
        assert repr(secret) not in shown


def test_the_key_lies_beside_the_deployment(tmp_path: Path) -> None:
    key_file(tmp_path)
    deployment = from_dict(sealed_tables())
    found = key_of(deployment, tmp_path / "site.toml")
    assert found is not None
    assert found.secret.hex() == DIGITS
    with pytest.raises(KeyFault, match="name its file by --key"):
        key_of(deployment, None)
    with pytest.raises(KeyFault, match="No such file"):
        key_of(deployment, tmp_path / "elsewhere" / "site.toml")
    plain = from_dict({key: value for key, value in sealed_tables().items() if key != "security"})
    assert key_of(plain, None) is None
    with pytest.raises(KeyFault, match="need no key"):
        key_of(plain, None, tmp_path / "site.key")


def test_only_the_owner_reads_the_builds_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "site.toml").write_text(from_dict(sealed_tables()).to_toml())
    arguments = ["key", str(tmp_path / "site.toml"), "-o", str(tmp_path / "causeway_key.h")]
    assert main(arguments) == 1
    said = capsys.readouterr().err  # a new key would be harmful in a network that has one
    assert (
        0 < said.index("copy it") < said.index("only for a new network") < said.index("basestation key new")
    )
    path = key_file(tmp_path)
    assert main(arguments) == 0
    made = tmp_path / "causeway_key.h"
    assert made.stat().st_mode & 0o777 == 0o600
    assert "#define CAUSEWAY_KEY 0x00, 0x11, 0x22," in made.read_text()
    before = made.stat().st_mtime_ns
    assert main(arguments) == 0
    assert made.stat().st_mtime_ns == before
    path.chmod(0o644)
    assert main(arguments) == 1
    assert DIGITS not in "".join(capsys.readouterr())


def test_a_key_has_sixteen_bytes() -> None:
    with pytest.raises(KeyFault, match="16 bytes, not 3"):
        Key(b"abc")
