"""What to cite for a configuration."""

from __future__ import annotations

from ..datasets.references import CITATIONS
from ..experiments.tables import Config
from ..methods.bibtex import FEDAVG

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
    parts = [FEDTIER, JAX, reference, CITATIONS.get(config.data.name, ""), PARTITIONS.get(config.data.partition, "")]
    if config.data.partition == "classes":
        parts.append(FEDAVG)  # the split by shards comes from the same paper
    return "\n\n".join(dict.fromkeys(part for part in parts if part))
