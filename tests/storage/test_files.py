"""Files and folders: what stands in the way is named."""

import pytest

from fedtier.errors import FedtierError
from fedtier.storage.files import folder_for, make_folder


def test_a_file_where_a_folder_should_be_is_called_one(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(FedtierError, match="is a file, not a folder"):
        make_folder(tmp_path / "taken")
    with pytest.raises(FedtierError, match=r"cannot be written: Not a directory"):
        make_folder(tmp_path / "taken" / "below")
    make_folder(tmp_path / "new" / "deep")
    make_folder(tmp_path / "new" / "deep")  # a second time is no error


def test_a_folder_that_was_made_for_nothing_goes_again(tmp_path):
    inside = tmp_path / "a" / "b"
    with pytest.raises(ValueError, match="refused"), folder_for(inside):
        raise ValueError("refused")
    assert not (tmp_path / "a").exists()
    with pytest.raises(ValueError, match="late"), folder_for(inside):
        (inside / "kept").write_text("x")
        raise ValueError("late")
    assert (inside / "kept").exists()
    with folder_for(inside / "c"):
        pass
    with pytest.raises(ValueError, match="again"), folder_for(inside / "c"):
        raise ValueError("again")
    assert (inside / "c").is_dir()  # it was there before
