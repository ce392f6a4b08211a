import pytest


@pytest.fixture(autouse=True)
def _no_folder_from_outside(request, monkeypatch):
    """Tests say which folder they mean; only those on the real sets read the environment's."""
    if "data" not in request.keywords:
        monkeypatch.delenv("FEDTIER_DATA", raising=False)
