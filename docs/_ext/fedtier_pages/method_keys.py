"""What the keys of the methods mean: (meaning, unit, example). The keys themselves are declared in `fedtier.methods`."""

from __future__ import annotations

from typing import Any

METHOD_KEYS: dict[str, tuple[str, str, Any]] = {
    "estimator": (
        "How the values at the probes become an estimate of the gradient: `sphere`, `orthogonal`, `guided`, `first_order`, "
        "`exact`, or `auto`, which is `guided` unless `uplink` forbids it. See [estimators](estimators.md).",
        "",
        "guided",
    ),
    "smoothing": ("eta: how far from x a client probes. Below 0.01 the rounding of float32 shows.", "distance", 0.1),
    "directions": ("K: probe directions of a client in a round; each costs two local solves.", "directions", 2),
    "guide": (
        "What guides the probes: `displacement` (the client's last x - y) or `server` (first the gradient of f1, which the "
        "server sends along, then displacements).",
        "",
        "server",
    ),
    "mix": ("The chance of a random direction instead of the guide, which removes the guide's bias.", "share", 0.1),
    "control": ("Subtracts the known part of the gradient, grad_x f2, so that only the rest is left to chance.", "", True),
    "coupled": (
        "The two solves of a direction draw the same minibatches, so that their difference has less noise.",
        "",
        False,
    ),
    "uplink": (
        "What leaves a client: `values` (two numbers a direction), `models` (its solutions), `estimate` (the gradient), or "
        "`auto`, the least that the estimator needs. Of codistil also `predictions` of the shown rows.",
        "",
        "values",
    ),
    "start": (
        "Where a solve starts: `probe` (at the probe point) or `warm` (at the client's last solution).",
        "",
        "warm",
    ),
    "remembered": (
        "k: the server remembers the latest estimates of up to k clients and averages them with those of the round; 0: of the "
        "round alone.",
        "clients",
        10,
    ),
    "shared_directions": (
        "All clients of a round probe along the same directions, so that the server needs the mean of their slopes alone.",
        "",
        True,
    ),
    "fading": (
        "Whether an estimate's pull fades as the server moves along it, and ends where f2 would be 0; if not, it stays "
        "the same in all steps of a round.",
        "",
        True,
    ),
    "spread": (
        "s: where fewer than this share of the clients answer a round (of those asked plus `remembered`, where these are "
        "fewer), the pull is weaker in proportion; 0: never.",
        "share",
        0.3,
    ),
    "bounded": (
        "Whether a client's steps are shortened where its loss is too curved for them: the first to at most 1/L, the others "
        "by the same factor.",
        "",
        True,
    ),
    "client_lr": (
        "The client's step sizes: a number is a constant step, a schedule has a name.",
        "step size",
        "inverse(0.1)",
    ),
    "batch": ("Rows of a client's minibatch.", "rows", 64),
    "momentum": (
        "rho: a client's step is along m <- rho m + gradient (heavy ball), from m = 0 in every round; 0: along the gradient.",
        "",
        0.9,
    ),
    "weight_decay": ("So many times the client's model is added to each of its gradients.", "", 0.0005),
    "server_lr": (
        "The server's step sizes: a number is a constant step, a schedule has a name.",
        "step size",
        "inverse_sqrt(0.01)",
    ),
    "server_batch": ("Rows of the server's minibatch.", "rows", 512),
    "server_steps": ("Steps of the server in a round; the clients pull in all of them.", "steps", 20),
    "server_step": ("The server's optimiser: `sgd`, `momentum` or `adam`.", "", "adam"),
    "server_weight_decay": (
        "So many times the server's model is added to each of its gradients; with `adam` beside its update (AdamW).",
        "",
        0.1,
    ),
    "averaging": (
        "s: the global model is the average of the server's models with weights that grow like r^s; 0: the last one.",
        "",
        3,
    ),
    "trust": ("Shortens the clients' estimate to so many times the length of f1's gradient; 0: never.", "", 1.0),
    "fine_tune": (
        "The personal model is the global one after local steps of this size on the client's rows; 0: the method's own.",
        "step size",
        "inverse(0.3)",
    ),
    "proximity": ("mu: how strongly local steps are pulled towards the global model.", "", 1.0),
    "weighting": ("Clients count by their rows (`data`, as published) or alike (`uniform`).", "", "uniform"),
    "server_momentum": ("beta_1: how much of its last direction the server keeps.", "share", 0.9),
    "second_moment": ("beta_2: how much of its mean of squared moves the server keeps.", "share", 0.99),
    "adaptivity": ("tau: added to the root of the mean square, whose first value is tau^2; large: plain steps.", "", 0.01),
    "epsilon": ("Keeps the server's step finite where the clients' moves cancel.", "", 0.001),
    "mixture_lr": ("gamma: how fast the weights of the clients move to those with a large loss.", "step size", 0.01),
    "form": ("FedRZO of one level (`nn`) or of two (`bl`): on the loss, or on the loss and f2 at y_i(x).", "", "bl"),
    "upper_rate": ("The step of the upper level's variables x, in multiples of the client's step.", "", 0.1),
    "adjoint_rate": ("The step of the adjoint v, in multiples of the client's step.", "", 0.5),
    "adjoint_radius": ("The server keeps the adjoint v in a ball of this radius.", "distance", 100.0),
    "projection": (
        "K: a client sends its move's products with K random directions that the server draws too; 0: the move itself. Needs "
        "short rounds: see `methods/projected.py`.",
        "numbers",
        64,
    ),
    "remap_rate": ("The step of what stands before the black box, in multiples of the client's step.", "", 0.1),
    "updates": (
        "K: the local steps of a client in a round, at most; a client with fewer steps in the plan makes fewer.",
        "steps",
        20,
    ),
    "perturbations": ("P: random directions in a local step; each costs two values of the loss.", "directions", 5),
    "probes": (
        "The random directions are independent (`normal`) or at right angles (`orthogonal`, at most n).",
        "",
        "orthogonal",
    ),
    "replay": (
        "W: the server sends the scalars of the W latest rounds, and clients rebuild the model; 0: it sends the model.",
        "rounds",
        100,
    ),
    "server_rate": ("The server moves by so many times the clients' average move.", "", 0.5),
    "trim": ("beta: the part of the replies that is cut off at either end of each coordinate.", "share", 0.3),
    "iterations": ("Iterations of Weiszfeld in a round, at most.", "iterations", 100),
    "tolerance": (
        "Iterations end where the weighted unit vectors from the geometric median to the replies add up to at most this.",
        "",
        1e-4,
    ),
    "nu": ("Distances to a reply are taken for at least this, so that none divides by 0.", "distance", 1e-5),
    "mixing": ("alpha: the share of a client's own model in its personal one, at the start.", "share", 0.25),
    "mixing_rate": ("The step of alpha in multiples of the client's step; 0: alpha stays as it is.", "", 0.0),
    "inner_steps": ("K: steps of the personal model for each step of the one that is sent; a gradient each.", "steps", 10),
    "outer_lr": ("eta: the step of the model that is sent, towards the personal one.", "step size", 0.1),
    "first_order": ("Leaves out the product with the Hessian: two gradients a step instead of four.", "", True),
    "kept": (
        "What stays at a client: `head` (the last layer), `body` (all but it), `norm` (normalisation layers), or a pattern of "
        "the names of parameters, with * and ?.",
        "",
        "layers.1.*",
    ),
    "kept_steps": ("k: of H local steps, k move what is kept for each that moves what is shared.", "steps", 1),
    "clusters": ("K: models at the server; with `cfl` the most that may come of splitting.", "models", 3),
    "start_spread": (
        "Models 1 .. K - 1 start so many times a standard normal number away from x_0, in each coordinate.",
        "",
        0.3,
    ),
    "start_seed": ("The seed of these normal numbers.", "", 1),
    "patience": (
        "A model that none of the latest patience K replies has chosen restarts at the end of the reply that fits worst; 0: "
        "never.",
        "",
        10,
    ),
    "members": ("The most clients that the server has room to remember something of.", "clients", 2000),
    "split_mean": ("e1: a cluster splits only where its clients' mean update is shorter.", "distance", 0.1),
    "split_longest": ("e2: and only where one of these updates is longer.", "distance", 0.4),
    "split_after": ("The first round in which a cluster may split.", "rounds", 5),
    "sparsity": ("gamma: how strongly the personal models are drawn to 0, number by number.", "", 0.01),
    "shared_sparsity": ("gamma_w: how strongly the global model is drawn to 0, number by number.", "", 0.01),
    "width": ("rho: numbers smaller than this are drawn to 0 in proportion, larger ones all alike.", "distance", 0.1),
    "ridge": (
        "Adds ridge/2 |theta|^2 to a client's loss: FedMac's may have no minimum without it (0 as published); MOCHA's lambda.",
        "",
        1.0,
    ),
    "buffer": ("B: the server makes a step after so many replies, each client at most once among them.", "replies", 4),
    "blending": ("alpha: how much of a fresh reply goes into the global model.", "", 0.9),
    "anchor": ("rho: how strongly local steps are pulled towards the model that the client began with.", "", 0.1),
    "blended": (
        "What is mixed in: the client's `model`, as published, or the `delta` to the model it began with.",
        "",
        "delta",
    ),
    "discounting": ("How a reply of age tau counts: `constant`, `polynomial` or `hinge`.", "", "hinge"),
    "exponent": ("a of the polynomial (1 + tau)^-a.", "", 1.0),
    "hinge_slope": ("a of the hinge: 1/(a (tau - b) + 1) beyond b.", "", 1.0),
    "hinge_after": ("b of the hinge: replies up to this age count in full.", "server steps", 6.0),
    "contrast": ("mu: how much the features of a client's model are drawn to those of the global one.", "", 5.0),
    "temperature": (
        "T: of moon, the smaller, the more the closest features count; of codistil, the larger, the softer both predictions.",
        "",
        0.5,
    ),
    "agreement": ("lambda: how strongly the server is drawn to what the clients say of the shown rows.", "", 0.3),
    "guidance": ("mu: how strongly the clients are drawn to what the server says of them.", "", 0.5),
    "divergence": (
        "How far two predictions are apart: `kl`, `probabilities` or `logits` (the squared distances).",
        "",
        "logits",
    ),
    "public_rows": ("P: so many rows of the server are shown to every client, or all it has.", "rows", 1000),
    "public_labels": (
        "Whose labels the shown rows have: `server` (its own, which stay there; codistil), `shown` (they are shown as well; "
        "fedmd), or `none` (nobody's).",
        "",
        "none",
    ),
    "fusion": (
        "What the server distils from: the clients' `models`, averaged first, or their `predictions` alone.",
        "",
        "predictions",
    ),
    "decimals": ("Digits of a probability that leaves a client; 0: all.", "digits", 2),
    "top": ("Classes of which a probability leaves a client; 0: all.", "classes", 3),
    "noise": ("Deviation of what is added to a probability that leaves a client.", "", 0.05),
    "loss": (
        "Of a row: hinge, one output against the rest, or squared; auto: hinge for classes, squared for numbers.",
        "",
        "squared",
    ),
    "relate_every": ("Which clients are alike is learnt anew after so many rounds; 0: never, each is alone.", "rounds", 5),
    "shrinkage": ("s: how far the matrix of who is like whom is drawn to that where nobody is.", "share", 0.3),
    "neighbours": ("k: of the client's own rows, so many of the nearest have a say.", "rows", 5),
    "stored": ("The most rows of a client that are remembered; of more, the first, and a warning says so.", "rows", 500),
    "distance_scale": ("s: a row at distance d says exp(-d/s).", "distance", 0.3),
}
