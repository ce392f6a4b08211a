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

IFCA = """@inproceedings{ghosh2020efficient,
  title = {An Efficient Framework for Clustered Federated Learning},
  author = {Ghosh, Avishek and Chung, Jichan and Yin, Dong and Ramchandran, Kannan},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020}
}"""

CFL = """@article{sattler2021clustered,
  title = {Clustered Federated Learning: Model-Agnostic Distributed Multitask Optimization Under Privacy Constraints},
  author = {Sattler, Felix and M{\\"u}ller, Klaus-Robert and Samek, Wojciech},
  journal = {IEEE Transactions on Neural Networks and Learning Systems},
  volume = {32},
  number = {8},
  pages = {3710--3722},
  year = {2021}
}"""
