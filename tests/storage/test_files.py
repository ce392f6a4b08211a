"""Files and folders: what stands in the way is named."""

import pytest

from fedtier.errors import FedtierError
from fedtier.storage.files import make_folder


def test_a_file_where_a_folder_should_be_is_called_one(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(FedtierError, match="is a file, not a folder"):
        make_folder(tmp_path / "taken")
    with pytest.raises(FedtierError, match=r"cannot be written: Not a directory"):
        make_folder(tmp_path / "taken" / "below")
    make_folder(tmp_path / "new" / "deep")
    make_folder(tmp_path / "new" / "deep")  # a second time is no error
