"""The user's own data: tables, .npz, folders of images; what is suspicious is told, what cannot be used is refused."""

from __future__ import annotations

import numpy as np
import pyarrow
import pytest
from PIL import Image

from fedtier.datasets import load
from fedtier.errors import FedtierError, FedtierWarning


def refused(file, message, **options):
    with pytest.raises(FedtierError, match=message):
        load("file", file=file, **options)


def csv(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def everyone(data):
    """Prepared as if all rows were training rows."""
    return data.prepared([np.arange(data.rows)])


def test_a_table_has_no_inputs_until_it_is_known_which_rows_are_training_rows(tmp_path):
    path = csv(tmp_path, "\ufeffage,site,outcome,dose\n40,Bern,well,1e-3\n50,Ulm,ill,2e-3\n\n60,Bern,ill,1e-3\n")
    data = load("file", file=path, label="outcome", owner="site")
    assert data.inputs.shape == (3, 0) and data.label_names == ("ill", "well") and data.labels.tolist() == [1, 0, 0]
    assert data.owner_names == ("Bern", "Ulm") and data.owner.tolist() == [0, 1, 0]
    prepared = data.prepared([np.array([0, 2]), np.array([0, 1])])
    assert prepared.columns == ("age",) and prepared.rows == 3 and prepared.inputs.shape == (6, 2)
    np.testing.assert_allclose(prepared.inputs[:3], [[-1, 0], [0, 0], [1, 0]], atol=1e-6)  # 40, 60: mean 50, deviation 10
    np.testing.assert_allclose(prepared.inputs[3:], [[-1, -1], [1, 1], [3, -1]], atol=1e-6)  # 40, 50: and the dose varies


def test_text_and_missing_values_and_semicolons_are_no_obstacle(tmp_path):
    path = csv(tmp_path, "a;sex;label\n1,5;f;0\n;m;1\n2,5;f;1\n3,5;;0\n")
    data = everyone(load("file", file=path))
    assert data.columns == ("a", "a missing", "sex = f", "sex = m", "sex missing")
    np.testing.assert_array_equal(data.inputs[:, 1:], [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])


def test_columns_are_dropped_kept_and_taken_for_codes(tmp_path):
    path = csv(tmp_path, "a,b,ward,label\n1,2,10,0\n3,4,20,1\n5,7,10,1\n")
    assert everyone(load("file", file=path, drop=["ward"])).columns == ("a", "b")
    assert everyone(load("file", file=path, keep=["b"])).columns == ("b",)
    assert everyone(load("file", file=path, categories=["ward"])).columns == ("a", "b", "ward = 10", "ward = 20")
    refused(path, r"drop = 'wart': is not a column of the table\n.*did you mean 'ward'", drop=["wart"])
    refused(path, "keep = 'label': is the label", keep=["label", "a"])
    refused(path, "cannot stand beside drop", keep=["a"], drop=["b"])
    refused(path, "no column besides label", drop=["a", "b", "ward"])


def test_missing_values_are_filled_dropped_or_refused_as_chosen(tmp_path):
    path = csv(tmp_path, "a,b,label\n1,x,0\n,y,1\n3,,1\n4,x,1\n5,y,\n")
    refused(path, "label label: is missing in row 4", missing="median")
    data = load("file", file=path, missing="drop")
    assert data.rows == 2 and "3 rows with missing values are left out" in data.notes
    path = csv(tmp_path, "a,b,label\n1,x,0\n,y,1\n3,,1\n")
    refused(path, "column a = 'no value': is missing in 1 rows, first in row 1", missing="refuse")
    assert everyone(load("file", file=path, missing="zero")).preparation.numbers[0].fill == 0


def test_a_name_that_two_columns_have_cannot_be_the_label_the_owner_or_the_weight(tmp_path):
    """The second column called like the label would be a feature that tells the answer."""
    path = csv(tmp_path, "a,y,y,w,w\n1,0,0,1,1\n2,1,1,1,2\n3,1,1,1,1\n")
    refused(path, "label = 'y': is the name of two columns", label="y")
    refused(path, "owner = 'y': is the name of two columns", label="a", owner="y")
    refused(path, "weight = 'w': is the name of two columns", label="a", weight="w")
    assert everyone(load("file", file=path, label="a")).columns == ("y", "y (2)", "w (2)")


def test_dates_are_refused_with_the_way_out(tmp_path):
    text = "when,a,label\n2020-01-02,1,0\n2020-02-02,2,1\n"
    refused(csv(tmp_path, text), r"column when = '2020-01-02': holds dates[^$]*drop = \[\"when\"\]")
    assert everyone(load("file", file=csv(tmp_path, text), drop=["when"])).columns == ("a",)


@pytest.mark.parametrize(
    ("column", "values"),
    [("rownames", range(1, 31)), ("patient_id", range(500, 800, 10)), ("k", range(30))],
)
def test_what_looks_like_an_index_or_an_id_is_told(tmp_path, column, values):
    text = f"{column},a,label\n" + "".join(f"{v},{v % 7},{v % 2 if v % 10 else 1}\n" for v in values)
    path = csv(tmp_path, text.replace(",1\n", ",2\n", 1))
    with pytest.warns(FedtierWarning, match=rf"column {column} counts the rows.*drop"):
        load("file", file=path)
    load("file", file=path, drop=[column])


def test_names_and_free_text_are_left_out_with_a_warning(tmp_path):
    path = csv(tmp_path, "name,a,label\n" + "".join(f"Person {k},{k % 3},{k % 2}\n" for k in range(40)))
    with pytest.warns(FedtierWarning, match="column name holds 40 different texts in 40 rows"):
        assert everyone(load("file", file=path)).columns == ("a",)


def test_infinite_numbers_are_missing_and_told_and_numbers_beyond_all_measure_refused(tmp_path):
    with pytest.warns(FedtierWarning, match="column a: 1 infinite numbers count as missing"):
        data = everyone(load("file", file=csv(tmp_path, "a,b,label\n1,1,0\ninf,2,1\n3,1,0\n")))
    assert data.columns == ("a", "b", "a missing")
    refused(csv(tmp_path, "a,b,label\n1,2,0\n1e99,2,1\n"), r"column a = 1e\+99: is too large in row 1")


def test_float_labels_are_a_regression_not_two_hundred_classes(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.normal(50, 7, 200)
    path = csv(tmp_path, "a,label\n" + "".join(f"{k % 9},{v!r}\n" for k, v in enumerate(y.tolist())))
    data = load("file", file=path)
    assert data.task == "regression" and data.label_names == () and data.outputs == 1
    assert np.bincount(data.strata).tolist() == [20] * 10 and len(data.strata_names) == 10
    prepared = data.prepared([np.arange(100)])
    np.testing.assert_allclose(prepared.labels, (y - y[:100].mean()) / y[:100].std(), rtol=1e-5)
    assert any("200 different numbers" in note for note in data.notes)


def test_row_weights_have_mean_1_over_the_training_rows(tmp_path):
    path = csv(tmp_path, "a,w,label\n1,2,0\n2,4,1\n3,6,0\n")
    assert load("file", file=path, weight="w").prepared([np.array([0, 1])]).weights.tolist() == pytest.approx([2 / 3, 4 / 3, 2])
    for text, message in (
        ("a,w,label\n1,-2,0\n2,4,1\n", "at least 0, but is not in row 0"),
        ("a,w,label\n1,x,0\n2,y,1\n", "words"),
    ):
        refused(csv(tmp_path, text), message, weight="w")


def test_a_csv_without_the_label_column_gets_the_nearest_column(tmp_path):
    path = csv(tmp_path, "age,outcome\n1,0\n2,1\n")
    refused(path, r"label = 'outcom': is not a column of the table\n.*did you mean 'outcome'", label="outcom")
    refused(path, r"label = 'label'.*\n.*known: age, outcome")
    refused(path, r"owner = 'site'", label="outcome", owner="site")
    refused(path, "three different columns", label="outcome", owner="outcome")


def test_a_file_that_is_not_there_gets_the_nearest_name(tmp_path, monkeypatch):
    csv(tmp_path, "a,label\n1,0\n2,1\n", "patients.csv")
    refused(tmp_path / "patient.csv", "is not there.*\n.*did you mean 'patients.csv'")
    refused(None, "must be given")
    refused(csv(tmp_path, "", "notes.doc"), r"must end in .csv, .tsv, .* or be a folder of images")
    monkeypatch.setenv("FEDTIER_DATA", str(tmp_path))
    assert load("file", file="patients.csv").rows == 2


def test_an_npz_of_images_keeps_its_bytes_and_is_scaled_by_constants(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 4), np.uint8)
    labels, owner = np.array(["dog", "cat", "dog", "cat", "cat", "dog"]), np.array([30, 7, 7, 30, 7, 7])
    np.savez_compressed(tmp_path / "pets.npz", x=images, y=labels, owner=owner)
    data = load("file", file=tmp_path / "pets.npz")
    assert data.name == "pets" and data.inputs.dtype == np.uint8 and np.array_equal(data.inputs, images)
    assert data.label_names == ("cat", "dog") and data.labels.tolist() == [1, 0, 1, 0, 0, 1]
    assert data.owner_names == ("7", "30") and data.owner.tolist() == [1, 0, 0, 1, 0, 0]
    np.testing.assert_allclose(data.model_inputs(), images / 127.5 - 1, atol=1e-6)


def test_an_npz_of_rows_is_a_table_and_one_of_float_images_is_scaled_by_channel(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(5, 3, (40, 4))
    rows[3, 2] = np.nan
    np.savez(tmp_path / "a.npz", inputs=rows, labels=np.arange(40) % 2, columns=["a", "b", "c", "d"], weight=np.ones(40))
    assert everyone(load("file", file=tmp_path / "a.npz", weight="weight", drop=["d"])).columns == ("a", "b", "c", "c missing")
    images = rng.normal([[[2.0]], [[30.0]]], [[[1.0]], [[9.0]]], (40, 2, 5, 5))
    np.savez(tmp_path / "b.npz", inputs=images, labels=np.arange(40) % 2)
    seen = load("file", file=tmp_path / "b.npz").prepared([np.arange(20)]).model_inputs()
    np.testing.assert_allclose(seen[:20].mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(seen[:20].std(axis=(0, 2, 3)), 1, atol=1e-5)
    assert np.abs(seen[20:].mean(axis=(0, 2, 3))).min() > 1e-4  # rows that were not trained on: only nearly


def test_arrays_that_are_no_rows_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    for inputs, labels, message in (
        (np.ones((3, 2)), np.array([0, 1]), "2 values.*there are 3 rows"),
        (np.ones((3, 2)), np.eye(3), "one value per row"),
        (np.zeros((0, 4)), np.arange(0), "holds no rows"),
        (np.full((3, 1), "a"), np.arange(3), "must hold numbers"),
        (np.full((3, 2, 2), np.nan), np.arange(3), "must be finite"),
    ):
        np.savez(path, inputs=inputs, labels=labels)
        refused(path, message)


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
    assert data.inputs.dtype == np.uint8 and data.owner is None
    refused(tmp_path, "has no owners", owner="folder")


def test_the_outer_of_two_folders_is_the_owner(tmp_path):
    for k, name in enumerate(("ulm/dog/a", "bern/cat/a", "bern/dog/a", "ulm/cat/a", "ulm/cat/b")):
        picture(tmp_path / f"{name}.png", np.full((4, 4), k))
    data = load("file", file=tmp_path, owner="folder")
    assert data.owner_names == ("bern", "ulm") and data.label_names == ("cat", "dog")
    assert data.owner.tolist() == [0, 0, 1, 1, 1] and data.labels.tolist() == [0, 1, 0, 0, 1]
    assert data.inputs[:, 0, 0, 0].tolist() == [1, 2, 3, 4, 0]
    refused(tmp_path, "must be 'folder'", owner="site")


def test_grey_images_have_one_channel_and_sizes_are_made_equal_on_request(tmp_path):
    picture(tmp_path / "a" / "1.png", np.full((4, 4), 9))
    picture(tmp_path / "b" / "1.png", np.full((6, 8), 200))
    refused(tmp_path, r"8x6 pixels, but .* is 4x4[^$]*image_size")
    data = load("file", file=tmp_path, image_size=4)
    assert data.shape == (1, 4, 4) and data.inputs[0].tolist() == [[[9] * 4] * 4] and data.inputs[1].max() == 200
    refused(csv(tmp_path, "a,label\n1,0\n2,1\n"), "is for a folder of images", image_size=4)


def test_sixteen_bit_greys_are_scaled_not_clipped(tmp_path):
    for name, value in (("a", 0x1234), ("b", 0xFFFF)):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((4, 4), value, np.uint16)).save(tmp_path / name / "1.png")
    assert load("file", file=tmp_path).inputs[:, 0, 0, 0].tolist() == [0x12, 0xFF]


def test_folders_that_are_no_classes_and_broken_images_are_refused(tmp_path):
    picture(tmp_path / "one" / "a" / "1.png", np.zeros((4, 4)))
    refused(tmp_path / "one", "sub-folder per class, but has 1")
    picture(tmp_path / "mixed" / "a" / "1.png", np.zeros((4, 4)))
    (tmp_path / "mixed" / "b").mkdir()
    refused(tmp_path / "mixed", "holds no images")
    noise = np.random.default_rng(0).integers(0, 256, (40, 40), np.uint8)
    for name in ("a", "b"):
        picture(tmp_path / "flat" / name / "1.png", noise)
    path = tmp_path / "flat" / "b" / "1.png"
    path.write_bytes(path.read_bytes()[:600])
    refused(tmp_path / "flat", r"b/1.png'?: is not an intact image")


def test_the_digest_knows_all_that_a_result_depends_on(tmp_path):
    """A store that finds its cells by the digest must not hand out those of other weights, names or settings."""
    text = "a,who,w,y\n1,u,1,0\n2,u,2,1\n3,v,3,1\n4,v,4,0\n"

    def digests(text, **options):
        data = load("file", file=csv(tmp_path, text), label="y", owner="who", weight="w", **options)
        return data.digest(), everyone(data).digest()

    other = [
        digests(text.replace("3,v,3,1", "3,v,5,1")),  # a weight
        digests(text.replace("v", "z")),  # the name of an owner
        digests(text.replace("a,", "b,", 1)),  # the name of a column
        digests("a,who,w,y\n2,u,1,0\n4,u,2,1\n6,v,3,1\n8,v,4,0\n"),  # twice the numbers, which standardised are the same
        digests(text, categories=["a"]),
    ]
    assert digests(text) == digests(text)
    for k in (0, 1):
        assert len({digests(text)[k], *(found[k] for found in other)}) == 6
    assert digests(text)[0] != digests(text, missing="zero")[0] != digests(text, max_categories=5)[0]


def test_a_label_and_a_weight_with_commas_are_read_as_the_other_columns_are(tmp_path):
    text = "x\tw\ty\n" + "".join(f"0,{k}\t{k + 1},125\t2{k},500\n" for k in range(1, 6))
    data = load("file", file=csv(tmp_path, text, "t.tsv"), label="y", weight="w", task="regression")
    np.testing.assert_array_equal(data.labels, np.arange(21.5, 26))
    np.testing.assert_array_equal(data.weights, np.arange(2.125, 7))
    path = csv(tmp_path, text.replace("0,", ""), "t.tsv")
    refused(path, r"column y = '21,500': may be 21500 or 21\.500[^$]*decimal = \",\"", label="y", drop=["w"])
    refused(path, "column w = '2,125'", label="x", weight="w", categories=["y"])
    refused(path, "column w = '2,125'", label="x")
    assert load("file", file=path, label="x", categories=["w"], drop=["y"]).rows == 5  # codes are no numbers
    data = load("file", file=path, label="y", weight="w", decimal=".", task="regression")
    assert data.labels[0] == 21_500 and data.weights[0] == 2_125 and data.decimal == "."


def test_the_label_that_is_named_is_the_label_in_an_npz_too(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, inputs=np.eye(4), labels=[0, 1, 0, 1], outcome=[0, 0, 1, 1])
    assert load("file", file=path, label="outcome").labels.tolist() == [0, 0, 1, 1]
    refused(path, r"no array 'outcom'\n.*did you mean 'outcome'", label="outcom")
    assert load("file", file=path).labels.tolist() == [0, 1, 0, 1]


def test_owners_and_labels_keep_whole_numbers_that_a_float_cannot_tell_apart(tmp_path):
    """Seen: owners 2^53 and 2^53 + 1 of a Parquet file or an .npz became one client."""
    first = 2**53
    numbers = np.asarray([first, first + 1, first, first + 1])
    columns = {"x": np.asarray([1.0, 5.0, 2.0, 7.0]), "who": numbers, "label": numbers}
    np.savez(tmp_path / "a.npz", inputs=np.eye(4), labels=numbers, who=numbers)
    for source in (columns, tmp_path / "a.npz", columns | {"who": np.asarray([*numbers.tolist()], dtype=object)}):
        data = load("file", file=source, owner="who")
        assert data.owner_names == data.label_names == (str(first), str(first + 1))
        assert data.owner.tolist() == data.labels.tolist() == [0, 1, 0, 1]
    gap = load("file", file=pyarrow.table(columns | {"who": [first, first + 1, None, first]}), owner="who", missing="drop")
    assert gap.owner_names == (str(first), str(first + 1)) and gap.rows == 3


def test_no_image_is_left_out_without_a_word(tmp_path):
    for name in ("ann/cat/1", "ann/dog/1", "bob/cat/1", "bob/dog/1", "ann/sheet", "bob/sheet"):
        picture(tmp_path / "stray" / f"{name}.png", np.zeros((4, 4)))
    refused(tmp_path / "stray", r"ann/cat/1.png'?: is one of 4 images that would be left out[^$]*FOLDER/OWNER/CLASS")
    for name in ("cat/1", "dog/1", "dog/more/2"):
        picture(tmp_path / "deep" / f"{name}.png", np.zeros((4, 4)))
    refused(tmp_path / "deep", r"dog/more/2.png'?: is one of 1 images")
    for name in ("cat/1", "dog/1", "cover"):
        picture(tmp_path / "top" / f"{name}.png", np.zeros((4, 4)))
    refused(tmp_path / "top", r"cover.png'?: is one of 1 images")


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_pixels_of_32_bits_are_refused_by_name(tmp_path, kind):
    """Seen: integers from 0 to 255 and floats from 0 to 1 became all zeros."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.ones((4, 4), kind)).save(tmp_path / name / "1.tif")
    refused(tmp_path, r"cat/1.tif'?: has pixels of 32 bits[^$]*8 or 16 bits")


def test_a_class_or_an_owner_called_na_is_told_and_kept_on_request(tmp_path):
    path = csv(tmp_path, "a,who,y\n1,NA,none\n2,DE,mild\n3,DE,none\n4,NA,mild\n5,DE,mild\n")
    refused(path, r"label y: is missing in row 0.*taken for missing: 'none' in 2 rows[^$]*missing_words = \[\]", label="y")
    data = load("file", file=path, label="y", owner="who", missing_words=[])
    assert data.label_names == ("mild", "none") and data.owner_names == ("DE", "NA") and data.rows == 5
    dropped = load("file", file=path, label="y", owner="who", missing="drop", missing_words=["NA"])
    assert dropped.rows == 3 and dropped.label_names == ("mild", "none")
    assert "2 rows with missing values are left out (taken for missing: who: 'NA' in 2 rows)" in dropped.notes
    frame = {"a": [1.0, 2.0, 4.0], "y": ["none", "mild", "mild"]}
    refused(frame, "taken for missing: 'none' in 1 row", label="y")
    assert load("file", file=frame, label="y", missing_words=[]).label_names == ("mild", "none")


@pytest.mark.parametrize("name", ["patientID", "PatientId", "patient_id", "Patient Id", "patient-ID"])
def test_an_id_is_told_however_its_name_is_written(tmp_path, name):
    path = csv(tmp_path, f"{name},label\n" + "".join(f"{7 * k},{k % 2}\n" for k in range(30)))
    with pytest.warns(FedtierWarning, match="looks like an index or an id"):
        load("file", file=path)
