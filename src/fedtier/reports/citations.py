"""What to cite for a configuration."""

from __future__ import annotations

from ..experiments.config import Config
from ..methods.references import FEDAVG

FEDTIER = """@software{fedtier,
  title = {fedtier: federated learning on two levels},
  author = {{The fedtier developers}},
  year = {2026}
}"""

JAX = """@software{jax2018github,
  title = {{JAX}: composable transformations of {Python+NumPy} programs},
  author = {Bradbury, James and Frostig, Roy and Hawkins, Peter and Johnson, Matthew James and Leary, Chris and
            Maclaurin, Dougal and Necula, George and Paszke, Adam and VanderPlas, Jake and
            Wanderman-Milne, Skye and Zhang, Qiao},
  url = {http://github.com/jax-ml/jax},
  year = {2018}
}"""

DATA = {
    "digits": """@misc{alpaydin1998digits,
  title = {Optical Recognition of Handwritten Digits},
  author = {Alpaydin, E. and Kaynak, C.},
  howpublished = {UCI Machine Learning Repository},
  year = {1998}
}""",
    "mnist": """@article{lecun1998mnist,
  title = {Gradient-based learning applied to document recognition},
  author = {LeCun, Yann and Bottou, L{\\'e}on and Bengio, Yoshua and Haffner, Patrick},
  journal = {Proceedings of the IEEE},
  volume = {86}, number = {11}, pages = {2278--2324},
  year = {1998}
}""",
    "fashion-mnist": """@article{xiao2017fashion,
  title = {{Fashion-MNIST}: a Novel Image Dataset for Benchmarking Machine Learning Algorithms},
  author = {Xiao, Han and Rasul, Kashif and Vollgraf, Roland},
  journal = {arXiv preprint arXiv:1708.07747},
  year = {2017}
}""",
    "cifar10": """@techreport{krizhevsky2009cifar,
  title = {Learning Multiple Layers of Features from Tiny Images},
  author = {Krizhevsky, Alex},
  institution = {University of Toronto},
  year = {2009}
}""",
    "heart-disease": """@misc{janosi1988heart,
  title = {Heart Disease},
  author = {Janosi, Andras and Steinbrunn, William and Pfisterer, Matthias and Detrano, Robert},
  howpublished = {UCI Machine Learning Repository},
  year = {1988}
}""",
}

PARTITIONS = {
    "dirichlet": """@inproceedings{yurochkin2019bayesian,
  title = {Bayesian Nonparametric Federated Learning of Neural Networks},
  author = {Yurochkin, Mikhail and Agarwal, Mayank and Ghosh, Soumya and Greenewald, Kristjan and Hoang, Nghia and
            Khazaeni, Yasaman},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2019}
}

@inproceedings{li2022silos,
  title = {Federated Learning on Non-{IID} Data Silos: An Experimental Study},
  author = {Li, Qinbin and Diao, Yiqun and Chen, Quan and He, Bingsheng},
  booktitle = {IEEE International Conference on Data Engineering (ICDE)},
  year = {2022}
}""",
}


def bibliography(config: Config) -> str:
    """BibTeX of fedtier, JAX, the method, the data set and the partition that `config` uses, each once."""
    reference = config.method.entry.reference
    parts = [FEDTIER, JAX, reference, DATA.get(config.data.name, ""), PARTITIONS.get(config.data.partition, "")]
    if config.data.partition == "classes":
        parts.append(FEDAVG)  # the split by shards comes from the same paper
    return "\n\n".join(dict.fromkeys(part for part in parts if part))
