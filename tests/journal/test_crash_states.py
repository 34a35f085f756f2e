"""A loss of power at any moment: what was synced is there after the recovery, and nothing is invented."""

from basestation.journal import recovery
from tests.soak.crash_states import run_states


def test_no_state_after_a_loss_of_power_loses_or_invents_a_record():
    assert run_states(0, 600) == {}


def test_a_folder_whose_name_was_not_synced_is_found_out(monkeypatch):
    """The states are able to fail: this was a fault of the writer."""
    real = recovery.sync_folder
    monkeypatch.setattr(
        recovery, "sync_folder", lambda folder: real(folder) if folder.name == "run" else None
    )
    assert any("records is lost" in why for why in run_states(0, 300).values())
