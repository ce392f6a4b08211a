"""Where the methods come from, as BibTeX."""

ZO_HFL = """@article{qiu2025zohfl,
  title = {A Randomized Zeroth-Order Hierarchical Framework for Heterogeneous Federated Learning},
  author = {Qiu, Yuyang and Kim, Kibaek and Yousefian, Farzad},
  journal = {arXiv preprint arXiv:2504.01839},
  year = {2025}
}"""

FEDAVG = """@inproceedings{mcmahan2017fedavg,
  title = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
  author = {McMahan, Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and Ag{\\"u}era y Arcas, Blaise},
  booktitle = {Artificial Intelligence and Statistics (AISTATS)},
  year = {2017}
}"""

FEDPROX = """@inproceedings{li2020fedprox,
  title = {Federated Optimization in Heterogeneous Networks},
  author = {Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet and Smith, Virginia},
  booktitle = {Machine Learning and Systems (MLSys)},
  year = {2020}
}"""

SCAFFOLD = """@inproceedings{karimireddy2020scaffold,
  title = {{SCAFFOLD}: Stochastic Controlled Averaging for Federated Learning},
  author = {Karimireddy, Sai Praneeth and Kale, Satyen and Mohri, Mehryar and Reddi, Sashank and Stich, Sebastian and
            Suresh, Ananda Theertha},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2020}
}"""

DITTO = """@inproceedings{li2021ditto,
  title = {Ditto: Fair and Robust Federated Learning Through Personalization},
  author = {Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2021}
}"""

DECOMFL = """@inproceedings{li2025decomfl,
  title = {Achieving Dimension-Free Communication in Federated Learning via Zeroth-Order Optimization},
  author = {Li, Zhe and Ying, Bicheng and Liu, Zidong and Dong, Chaosheng and Yang, Haibo},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2025}
}"""

FEDRZO = """@inproceedings{qiu2023fedrzo,
  title = {Zeroth-Order Methods for Nondifferentiable, Nonconvex, and Hierarchical Federated Optimization},
  author = {Qiu, Yuyang and Shanbhag, Uday V. and Yousefian, Farzad},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2023}
}"""

SIMFBO = """@inproceedings{yang2023simfbo,
  title = {{SimFBO}: Towards Simple, Flexible and Communication-efficient Federated Bilevel Learning},
  author = {Yang, Yifan and Xiao, Peiyao and Ji, Kaiyi},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2023}
}"""
