"""The user's own files: .npz, .csv, .parquet, folders of images."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from fedtier.datasets import load
from fedtier.errors import FedtierError


def refused(file, message, **options):
    with pytest.raises(FedtierError, match=message):
        load("file", file=file, **options)


def csv(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_an_npz_file_keeps_uint8_images_and_maps_labels_and_owners(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 4), np.uint8)
    labels, owner = np.array(["dog", "cat", "dog", "cat", "cat", "dog"]), np.array([30, 7, 7, 30, 7, 7])
    np.savez_compressed(tmp_path / "pets.npz", x=images, y=labels, owner=owner)
    data = load("file", file=tmp_path / "pets.npz")
    assert data.name == "pets" and data.inputs.dtype == np.uint8 and np.array_equal(data.inputs, images)
    assert data.label_names == ("cat", "dog") and data.labels.tolist() == [1, 0, 1, 0, 0, 1]
    assert data.owner_names == ("7", "30") and data.owner.tolist() == [1, 0, 0, 1, 0, 0]
    seen = data.model_inputs()
    np.testing.assert_allclose(seen.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(seen.std(axis=(0, 2, 3)), 1, atol=1e-5)


def test_labels_with_gaps_signs_or_written_as_floats_are_mapped_in_numeric_order(tmp_path):
    for labels in (np.array([10, 2, -1]), np.array([10.0, 2.0, -1.0]), np.array(["10", "2", "-1"])):
        np.savez(tmp_path / "a.npz", inputs=np.ones((3, 2)), labels=labels)
        data = load("file", file=tmp_path / "a.npz")
        assert data.label_names == ("-1", "2", "10") and data.labels.tolist() == [2, 1, 0]
        assert data.inputs.dtype == np.float32


def test_owners_written_as_codes_with_leading_zeros_stay_apart(tmp_path):
    path = csv(tmp_path, "a,label,site\n1,0,007\n2,1,7\n3,1,07\n")
    assert load("file", file=path, owner="site").owner_names == ("007", "07", "7")


def test_labels_that_are_no_classes_are_refused_by_row(tmp_path):
    for labels, message in (
        (np.array([0, 0.5, 1]), "row 1.*not a whole number"),
        (np.array([0, 1, np.nan]), "row 2.*missing"),
        (np.array([1, 1, 1]), "at least 2 different values"),
        (np.array([0, 1]), "2 values.*there are 3 rows"),
        (np.eye(3), "one value per row"),
    ):
        np.savez(tmp_path / "a.npz", inputs=np.ones((3, 2)), labels=labels)
        refused(tmp_path / "a.npz", message)


def test_inputs_that_are_not_finite_numbers_are_refused_by_row_and_column(tmp_path):
    for value, message in ((np.nan, "nan.*row 1, column 2"), (np.inf, "inf.*row 1, column 2"), (1e300, "row 1, column 2")):
        inputs = np.zeros((3, 4))
        inputs[1, 2] = value
        np.savez(tmp_path / "a.npz", inputs=inputs, labels=[0, 1, 0])
        refused(tmp_path / "a.npz", message)
    text = np.full((3, 1), "a")
    for inputs, message in ((np.zeros((0, 4)), "holds no rows"), (np.zeros(3), "form"), (text, "must hold numbers")):
        np.savez(tmp_path / "a.npz", inputs=inputs, labels=np.arange(len(inputs)))
        refused(tmp_path / "a.npz", message)


def test_pickles_inside_npz_are_never_read(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    np.savez(tmp_path / "a.npz", inputs=np.array([[Trap()]], dtype=object), labels=[0])
    refused(tmp_path / "a.npz", "never unpickled")


def test_an_npz_cut_in_half_or_without_its_arrays_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, pixels=np.ones((3, 2)), labels=[0, 1, 0])
    refused(path, r"no array 'inputs' or 'x'\n.*pixels, labels")
    np.savez(path, x=np.ones((300, 20)), y=np.arange(300))
    refused(path, "no array 'site'", owner="site")
    path.write_bytes(path.read_bytes()[:5000])
    refused(path, "not an intact .npz")


def test_a_file_that_is_not_there_gets_the_nearest_name(tmp_path, monkeypatch):
    csv(tmp_path, "a,label\n1,0\n2,1\n", "patients.csv")
    refused(tmp_path / "patient.csv", "is not there.*\n.*did you mean 'patients.csv'")
    refused(None, "must be given")
    refused(csv(tmp_path, "", "notes.txt"), r"must end in .npz, .csv, .parquet")
    monkeypatch.setenv("FEDTIER_DATA", str(tmp_path))
    assert load("file", file="patients.csv").rows == 2


def test_a_csv_table_is_standardised_by_column_with_owners_by_name(tmp_path):
    path = csv(tmp_path, "\ufeffage,site,outcome,dose\n40,Bern,well,1e-3\n50,Ulm,ill,1e-3\n\n60,Bern,ill,1e-3\n")
    data = load("file", file=path, label="outcome", owner="site")
    assert data.columns == ("age", "dose") and data.label_names == ("ill", "well") and data.labels.tolist() == [1, 0, 0]
    assert data.owner_names == ("Bern", "Ulm") and data.owner.tolist() == [0, 1, 0]
    np.testing.assert_allclose(data.model_inputs(), [[-1.2247449, 0], [0, 0], [1.2247449, 0]], atol=1e-6)


def test_a_csv_without_the_label_column_gets_the_nearest_column(tmp_path):
    path = csv(tmp_path, "age,outcome\n1,0\n2,1\n")
    refused(path, r"data.label = 'outcom': is not a column of table.csv\n.*did you mean 'outcome'", label="outcom")
    refused(path, r"data.label = 'label'.*\n.*known: age, outcome")
    refused(path, r"data.owner = 'site'", label="outcome", owner="site")


def test_bad_cells_of_a_csv_are_named_by_line_and_column(tmp_path):
    for text, message in (
        ("a,b,label\n1,2,0\n3,,1\n", "column b = '': is missing in line 3"),
        ("a,b,label\n1,2,0\n3,tall,1\n", "column b = 'tall': must be a finite number in line 3"),
        ("a,b,label\n1,2,0\nnan,2,1\n", "column a = 'nan': must be a finite number in line 3"),
        ("a,b,label\n1,2,0\n1e99,2,1\n", "row 1, column a"),
        ("a,b,label\n1,2,0\n3,4\n", "line 3 must have 3 cells"),
        ("a,b,label\n1,2,0\n3,4,\n", "row 1.*missing"),
        ("a,b,label\n1,2,0\n3,4,NaN\n", "row 1.*missing"),
        ("a,a,label\n1,2,0\n", "column 'a' twice"),
        ("a;b;label\n1;2;0\n", "separated by commas, but looks separated by ';'"),
        ("a,b,label\n", "no rows, only a header"),
        ("label\n1\n", "no column besides"),
        ("", "is empty"),
    ):
        refused(csv(tmp_path, text), message)
    (tmp_path / "latin.csv").write_bytes("größe,label\n1,0\n".encode("latin-1"))
    refused(tmp_path / "latin.csv", "not UTF-8")


def test_a_long_csv_is_read_in_blocks_and_loses_nothing(tmp_path):
    values = np.random.default_rng(0).normal(size=(10_001, 2)).astype(np.float32)
    lines = "".join(f"{a!r},{b!r},{k % 3}\n" for k, (a, b) in enumerate(values.tolist()))
    data = load("file", file=csv(tmp_path, "a,b,label\n" + lines))
    np.testing.assert_array_equal(data.inputs, values)
    assert np.array_equal(data.labels, np.arange(10_001) % 3)


def test_a_parquet_table_reads_like_the_csv(tmp_path):
    columns = {"age": [40, 50, 60], "site": ["Bern", "Ulm", "Bern"], "dose": [0.5, 0.25, 1.0], "label": ["b", "a", "b"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    data = load("file", file=tmp_path / "t.parquet", owner="site")
    assert data.inputs.tolist() == [[40, 0.5], [50, 0.25], [60, 1.0]] and data.columns == ("age", "dose")
    assert data.labels.tolist() == [1, 0, 1] and data.owner_names == ("Bern", "Ulm")
    refused(tmp_path / "t.parquet", "column site = 'string': must be numeric")
    pyarrow.parquet.write_table(pyarrow.table(columns | {"age": [40, None, 60]}), tmp_path / "t.parquet")
    refused(tmp_path / "t.parquet", "row 1, column age", owner="site")
    pyarrow.parquet.write_table(pyarrow.table(columns | {"label": ["a", None, "b"]}), tmp_path / "t.parquet")
    refused(tmp_path / "t.parquet", "labels = 'row 1': is missing", owner="site")
    refused(tmp_path / "t.parquet", "did you mean 'label'", owner="site", label="lable")
    whole = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path / "t.parquet", "not an intact Parquet file")


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(tmp_path / "t.parquet", r"pyarrow[^$]*fedtier\[parquet\]")


def picture(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, np.uint8)).save(path)


def test_a_folder_of_images_gives_channels_first_and_classes_by_name(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 7, 3), np.uint8)
    for name, image in zip(("dog/a.png", "cat/b.png", "dog/c.PNG"), pixels, strict=True):
        picture(tmp_path / name, image)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    data = load("file", file=tmp_path)
    assert data.label_names == ("cat", "dog") and data.labels.tolist() == [0, 1, 1] and data.shape == (3, 5, 7)
    np.testing.assert_array_equal(data.inputs, pixels[[1, 0, 2]].transpose(0, 3, 1, 2))
    assert data.inputs.dtype == np.uint8


def test_grey_images_have_one_channel_and_sizes_are_made_equal_on_request(tmp_path):
    picture(tmp_path / "a" / "1.png", np.full((4, 4), 9))
    picture(tmp_path / "b" / "1.png", np.full((6, 8), 200))
    refused(tmp_path, r"8x6 pixels, but .* is 4x4[^$]*data.image_size")
    data = load("file", file=tmp_path, image_size=4)
    assert data.shape == (1, 4, 4) and data.inputs[0].tolist() == [[[9] * 4] * 4] and data.inputs[1].max() == 200
    refused(csv(tmp_path, "a,label\n1,0\n2,1\n"), "is for a folder of images", image_size=4)


def test_sixteen_bit_greys_are_scaled_not_clipped(tmp_path):
    for name, value in (("a", 0x1234), ("b", 0xFFFF)):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((4, 4), value, np.uint16)).save(tmp_path / name / "1.png")
    assert load("file", file=tmp_path).inputs[:, 0, 0, 0].tolist() == [0x12, 0xFF]


def test_folders_that_are_no_classes_and_broken_images_are_refused(tmp_path):
    picture(tmp_path / "train" / "a" / "1.png", np.zeros((4, 4)))
    refused(tmp_path, "sub-folder per class, but has 1")
    picture(tmp_path / "test" / "a" / "1.png", np.zeros((4, 4)))
    refused(tmp_path, "holds no images")
    noise = np.random.default_rng(0).integers(0, 256, (40, 40), np.uint8)
    for name in ("a", "b"):
        picture(tmp_path / "flat" / name / "1.png", noise)
    path = tmp_path / "flat" / "b" / "1.png"
    path.write_bytes(path.read_bytes()[:600])
    refused(tmp_path / "flat", r"b/1.png'?: is not an intact image")
