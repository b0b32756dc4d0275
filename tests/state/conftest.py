"""Publishing many times over in these tests, without waiting for the disk each time."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a power cut can tell whether a file was synced; tests/faults/disk/test_durability.py watches that it is."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
