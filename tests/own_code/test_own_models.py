"""Models of clients' own: every kind learns from its rows and from what it is taught, and is kept by its name."""

import ast
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.own_code.held import Held
from fedtier.own_code.own_models.contract import Guidance, logits_of, require_model
from fedtier.own_code.own_models.kept import Kept, names_in
from fedtier.own_code.own_models.words import maker_of
from fedtier.problem import Rows

PAGE = Path(__file__).parents[2] / "docs" / "own-models.md"
RNG = np.random.default_rng(0)
CENTRES = np.asarray([[0.0, 3.0], [3.0, 0.0], [-3.0, -3.0]])
CLOSED = """
import sys, io, numpy as np
from pathlib import Path
def fit(rows, guidance):
    x, c = np.concatenate([rows["inputs"], guidance["inputs"]]), int(guidance["classes"])
    own = np.eye(c)[rows["labels"]]
    s = np.concatenate([own, float(guidance["weight"]) * guidance["shares"]])
    total = s.sum(axis=0)[:, None]
    return np.where(total > 0, s.T @ x / np.maximum(total, 1e-9), 1e3).astype(np.float64)
def predict(centres, x):
    e = np.exp(-np.sum((x[:, None] - centres[None]) ** 2, axis=2))
    return e / e.sum(axis=1, keepdims=True)
if __name__ == "__main__":
    verb, folder = sys.argv[1], Path(sys.argv[2])
    if verb == "fit":
        found = fit(np.load(folder / "rows.npz"), np.load(folder / "guidance.npz"))
        (folder / "model.bin").write_bytes(found.tobytes())
    else:
        centres = np.frombuffer((folder / "model.bin").read_bytes()).reshape(3, 2)
        np.save(folder / "shares.npy", predict(centres, np.load(folder / "inputs.npy")))
"""


def points(classes, count):
    labels = RNG.choice(classes, count)
    return (CENTRES[labels] + RNG.standard_normal((count, 2))).astype(np.float32), labels.astype(np.int32)


OWN = Rows(*points([0, 1], 80))  # the client has never seen class 2
SHOWN, TRUTH = points([0, 1, 2], 90)
NEW, LABELS = points([0, 1, 2], 200)


def lesson(weight=1.0, seed=3):
    return Guidance(SHOWN, (0.97 * np.eye(3)[TRUTH] + 0.01).astype(np.float32), weight, 3, 5, seed)


KINDS = [
    "sklearn:RandomForestClassifier(n_estimators=20)", "sklearn:LogisticRegression",
    "sklearn:HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5)", "jax:mlp(hidden=16, lr=0.03, epochs=30)",
    "program",
]  # fmt: skip


def word_of(kind, folder):
    if kind != "program":
        return kind
    (folder / "closed.py").write_text(CLOSED)
    return f"program:{sys.executable} {folder / 'closed.py'}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_every_kind_learns_a_class_that_it_was_only_taught_and_comes_to_the_same_model_again(kind, tmp_path):
    models = [maker_of(word_of(kind, tmp_path))() for _ in range(3)]
    for model, weight in zip(models, (1.0, 1.0, 0.0), strict=True):
        model.fit(OWN, lesson(weight))
    taught, again, alone = (model.predict_proba(NEW) for model in models)
    np.testing.assert_array_equal(taught, again)
    assert taught.shape == (200, 3)
    np.testing.assert_allclose(taught.sum(axis=1), 1.0, rtol=1e-4)
    third = LABELS == 2
    assert np.mean(taught.argmax(axis=1) == LABELS) > 0.85 and np.mean(taught.argmax(axis=1)[third] == 2) > 0.8
    assert np.mean(alone.argmax(axis=1)[third] == 2) < 0.2


@pytest.mark.extras
@pytest.mark.parametrize(
    "kind",
    [
        "xgboost:XGBClassifier(n_estimators=10, n_jobs=1)",
        "lightgbm:LGBMClassifier(n_estimators=10, min_child_samples=5, verbose=-1)",
    ],
)
def test_boosted_trees_of_other_packages_learn_likewise(kind, tmp_path):
    test_every_kind_learns_a_class_that_it_was_only_taught_and_comes_to_the_same_model_again(kind, tmp_path)
    kept = Kept(tmp_path / "own")
    kept.folder.mkdir()
    model = maker_of(kind)()
    model.fit(OWN, lesson())
    kept.put((1, 2), model)
    np.testing.assert_array_equal(Kept(tmp_path / "own").get((1, 2)).predict_proba(NEW), model.predict_proba(NEW))


@pytest.mark.extras
def test_a_module_of_pytorch_learns_likewise():
    import torch
    from torch import nn

    from fedtier.own_code.own_models.torch_net import TorchNet

    def make(shape, classes):
        return nn.Sequential(nn.Linear(*shape, 16), nn.ReLU(), nn.Linear(16, classes))

    models = [TorchNet(make, lambda weights: torch.optim.SGD(weights, 0.2), epochs=40) for _ in range(2)]
    for model in models:
        model.fit(OWN, lesson())
    taught, again = (model.predict_proba(NEW) for model in models)
    np.testing.assert_array_equal(taught, again)
    assert np.mean(taught.argmax(axis=1) == LABELS) > 0.85


def test_a_service_is_a_program_over_http(tmp_path):
    scope: dict = {"__name__": "closed"}
    exec(CLOSED, scope)

    class Desk(BaseHTTPRequestHandler):
        def do_POST(self):
            import io

            told = np.load(io.BytesIO(self.rfile.read(int(self.headers["Content-Length"]))))
            files = {name: io.BytesIO(told[name].tobytes()) for name in told.files}
            out = io.BytesIO()
            if self.path == "/fit":
                out.write(scope["fit"](np.load(files["rows.npz"]), np.load(files["guidance.npz"])).tobytes())
            else:
                centres = np.frombuffer(files["model.bin"].getvalue()).reshape(3, 2)
                np.save(out, scope["predict"](centres, np.load(files["inputs.npy"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(out.getvalue())

        def log_message(self, *words): ...

    with HTTPServer(("127.0.0.1", 0), Desk) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model = maker_of(f"service:http://127.0.0.1:{server.server_port}")()
        model.fit(OWN, lesson())
        assert np.mean(model.predict_proba(NEW).argmax(axis=1) == LABELS) > 0.85
        server.shutdown()


def test_the_new_kind_on_the_page_has_at_most_30_lines_and_learns():
    (code,) = re.findall(r"```python\n(class .*?)```", PAGE.read_text(), re.S)
    assert len(code.strip().splitlines()) <= 30
    scope = {"np": np}
    exec(code, scope)
    model = maker_of(Held("NearestCentroid", scope["NearestCentroid"]))()
    model.fit(OWN, lesson())
    assert np.mean(model.predict_proba(NEW).argmax(axis=1) == LABELS) > 0.85
    alone = scope["NearestCentroid"]()
    alone.fit(OWN, lesson(0.0))
    assert not (alone.predict_proba(NEW).argmax(axis=1) == 2).any()


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("sklearn:RandomForrestClassifier", "RandomForestClassifier"),
        ("sklearn:RandomForestClassifier(50)", "option=value"),
        ("skl:RandomForestClassifier", "names no kind"),
        ("jax:mlp(width=3)", "is no option of mlp"),
        ("jax:lenet", "is no net of ours"),
        ("program:", "must name what is called"),
        ("missing.py:make", "is not there"),
    ],
)
def test_a_word_that_names_no_model_is_refused_before_any_work(word, words):
    with pytest.raises(FedtierError, match=words):
        maker_of(word)


def test_what_is_no_model_is_refused_with_the_two_functions_that_it_lacks():
    with pytest.raises(FedtierError, match="must have fit and predict_proba"):
        require_model("clients.models", object())
    with pytest.raises(FedtierError, match="sample_weight"):
        maker_of("sklearn:KNeighborsClassifier")()
    with pytest.raises(FedtierError, match=r"must return the shape \(4, 3\)"):
        logits_of(np.zeros((4, 2)), 4, 3, "client 0")


def test_a_row_of_nan_says_nothing_of_that_row():
    logits, said = logits_of([[0.5, 0.5], [np.nan, 0.5]], 2, 2, "client 0")
    assert said.tolist() == [True, False] and np.isfinite(logits).all()


class Marked:
    """A model that is nothing but its mark."""

    def __init__(self, mark):
        self.mark = mark

    def fit(self, rows, guidance):
        pass

    def predict_proba(self, inputs):
        return np.ones((len(inputs), 1))


def test_what_cannot_be_kept_is_refused_in_words():
    with pytest.raises(FedtierError, match="cannot be kept"):
        Kept().put((1, 2), Marked(lambda: None))


def test_models_are_kept_by_their_names_and_go_when_no_checkpoint_names_them(tmp_path):
    kept = Kept()
    kept.put((1, 2), Marked(1))
    kept.move_to(tmp_path / "own")
    kept.put((3, 4), Marked(2))
    kept.put((5, 6), Marked(3))
    assert Kept(tmp_path / "own").get((1, 2)).mark == 1
    kept.prune(names_in(np.asarray([[1, 2]], np.uint32)))  # the first time nothing goes: an older checkpoint may name it
    assert kept.get((3, 4)).mark == 2
    kept.prune({(3, 4)})
    assert sorted(file.stem for file in (tmp_path / "own").iterdir()) == ["0000000100000002", "0000000300000004"]
    with pytest.raises(FedtierError, match="is not in"):
        kept.get((5, 6))


MINE = """
import numpy as np
class Nearest:
    def __init__(self, k=1): self.k = k
    def fit(self, rows, guidance): self.inputs, self.labels, self.classes = rows.inputs, rows.labels, guidance.classes
    def predict_proba(self, inputs):
        near = np.argsort(((inputs[:, None] - self.inputs[None]) ** 2).sum(axis=2), axis=1)[:, : self.k]
        return np.eye(self.classes)[self.labels[near]].mean(axis=1)
"""
READ = """
import sys, numpy as np
from pathlib import Path
from fedtier.own_code.own_models.kept import Kept
print(Kept(Path(sys.argv[1])).get((7, 8)).predict_proba(np.load(sys.argv[2])).tolist())
"""


def kept_by_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    model = maker_of(f"{tmp_path / 'mine.py'}:Nearest(k=3)")()
    model.fit(OWN, lesson())
    kept = Kept()
    kept.put((7, 8), model)
    kept.move_to(tmp_path / "own")
    return model


def test_a_model_of_a_users_file_is_read_by_another_process_also_where_the_file_is_gone(tmp_path):
    model = kept_by_a_file(tmp_path)
    (tmp_path / "mine.py").unlink()
    np.save(tmp_path / "new.npy", NEW[:4])
    line = [sys.executable, "-c", READ, str(tmp_path / "own"), str(tmp_path / "new.npy")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.asarray(ast.literal_eval(done.stdout)), model.predict_proba(NEW[:4]))


def test_a_model_without_the_file_that_made_it_is_refused_by_name(tmp_path, monkeypatch):
    module = type(kept_by_a_file(tmp_path)).__module__
    (tmp_path / "own" / f"{module}.py").unlink()
    monkeypatch.delitem(sys.modules, module)
    with pytest.raises(FedtierError, match="was made by a file of yours that is not in"):
        Kept(tmp_path / "own").get((7, 8))


@pytest.mark.parametrize(
    ("options", "words"),
    [("kk=3", "has no option kk.*did you mean.*k"), ("k=3, more=1", "has no option more")],
)
def test_an_option_that_a_model_does_not_have_is_refused_before_any_work(tmp_path, options, words):
    (tmp_path / "mine.py").write_text(MINE)
    with pytest.raises(FedtierError, match=f"(?s){words}"):
        maker_of(f"{tmp_path / 'mine.py'}:Nearest({options})")
