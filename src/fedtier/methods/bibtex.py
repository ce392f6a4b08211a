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

FEDNOVA = """@inproceedings{wang2020fednova,
  title = {Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization},
  author = {Wang, Jianyu and Liu, Qinghua and Liang, Hao and Joshi, Gauri and Poor, H. Vincent},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020}
}"""

APFL = """@article{deng2020apfl,
  title = {Adaptive Personalized Federated Learning},
  author = {Deng, Yuyang and Kamani, Mohammad Mahdi and Mahdavi, Mehrdad},
  journal = {arXiv preprint arXiv:2003.13461},
  year = {2020}
}"""

PFEDME = """@inproceedings{dinh2020pfedme,
  title = {Personalized Federated Learning with {Moreau} Envelopes},
  author = {T. Dinh, Canh and Tran, Nguyen H. and Nguyen, Tuan Dung},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020}
}"""

IFCA = """@inproceedings{ghosh2020efficient,
  title = {An Efficient Framework for Clustered Federated Learning},
  author = {Ghosh, Avishek and Chung, Jichan and Yin, Dong and Ramchandran, Kannan},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020}
}"""

FEDOPT = """@inproceedings{reddi2021fedopt,
  title = {Adaptive Federated Optimization},
  author = {Reddi, Sashank and Charles, Zachary and Zaheer, Manzil and Garrett, Zachary and Rush, Keith and
            Kone{\\v{c}}n{\\'y}, Jakub and Kumar, Sanjiv and McMahan, Brendan},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2021}
}"""

FEDAVGM = """@article{hsu2019fedavgm,
  title = {Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification},
  author = {Hsu, Tzu-Ming Harry and Qi, Hang and Brown, Matthew},
  journal = {arXiv preprint arXiv:1909.06335},
  year = {2019},
  url = {https://arxiv.org/abs/1909.06335}
}"""

FEDEXP = """@inproceedings{jhunjhunwala2023fedexp,
  title = {{FedExP}: Speeding Up Federated Averaging via Extrapolation},
  author = {Jhunjhunwala, Divyansh and Wang, Shiqiang and Joshi, Gauri},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2023}
}"""

AGNOSTIC = """@inproceedings{mohri2019agnostic,
  title = {Agnostic Federated Learning},
  author = {Mohri, Mehryar and Sivek, Gary and Suresh, Ananda Theertha},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2019}
}"""

FEDDYN = """@inproceedings{acar2021feddyn,
  title = {Federated Learning Based on Dynamic Regularization},
  author = {Acar, Durmus Alp Emre and Zhao, Yue and Matas Navarro, Ramon and Mattina, Matthew and Whatmough, Paul and
            Saligrama, Venkatesh},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2021}
}"""

PER_FEDAVG = """@inproceedings{fallah2020perfedavg,
  title = {Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic Meta-Learning Approach},
  author = {Fallah, Alireza and Mokhtari, Aryan and Ozdaglar, Asuman},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020}
}"""

FEDPER = """@article{arivazhagan2019fedper,
  title = {Federated Learning with Personalization Layers},
  author = {Arivazhagan, Manoj Ghuhan and Aggarwal, Vinay and Singh, Aaditya Kumar and Choudhary, Sunav},
  journal = {arXiv preprint arXiv:1912.00818},
  year = {2019}
}"""

FEDREP = """@inproceedings{collins2021fedrep,
  title = {Exploiting Shared Representations for Personalized Federated Learning},
  author = {Collins, Liam and Hassani, Hamed and Mokhtari, Aryan and Shakkottai, Sanjay},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2021}
}"""

FEDBN = """@inproceedings{li2021fedbn,
  title = {{FedBN}: Federated Learning on Non-{IID} Features via Local Batch Normalization},
  author = {Li, Xiaoxiao and Jiang, Meirui and Zhang, Xiaofei and Kamp, Michael and Dou, Qi},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2021}
}"""

RFA = """@article{pillutla2022rfa,
  title = {Robust Aggregation for Federated Learning},
  author = {Pillutla, Krishna and Kakade, Sham M. and Harchaoui, Zaid},
  journal = {IEEE Transactions on Signal Processing},
  volume = {70},
  year = {2022}
}"""

YIN = """@inproceedings{yin2018byzantine,
  title = {{B}yzantine-Robust Distributed Learning: Towards Optimal Statistical Rates},
  author = {Yin, Dong and Chen, Yudong and Ramchandran, Kannan and Bartlett, Peter},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2018}
}"""

LG_FEDAVG = """@article{liang2020lgfedavg,
  title = {Think Locally, Act Globally: Federated Learning with Local and Global Representations},
  author = {Liang, Paul Pu and Liu, Terrance and Ziyin, Liu and Allen, Nicholas B. and Auerbach, Randy P. and Brent, David
            and Salakhutdinov, Ruslan and Morency, Louis-Philippe},
  journal = {arXiv preprint arXiv:2001.01523},
  year = {2020}
}"""

FEDMAC = """@article{liu2023sparse,
  title = {Sparse Personalized Federated Learning},
  author = {Liu, Xiaofeng and Li, Yinchuan and Wang, Qing and Zhang, Xu and Shao, Yunfeng and Geng, Yanhui},
  journal = {IEEE Transactions on Neural Networks and Learning Systems},
  year = {2023}
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

CFL = """@article{sattler2021clustered,
  title = {Clustered Federated Learning: Model-Agnostic Distributed Multitask Optimization Under Privacy Constraints},
  author = {Sattler, Felix and M{\\"u}ller, Klaus-Robert and Samek, Wojciech},
  journal = {IEEE Transactions on Neural Networks and Learning Systems},
  volume = {32},
  number = {8},
  pages = {3710--3722},
  year = {2021}
}"""

FEDBUFF = """@inproceedings{nguyen2022fedbuff,
  title = {Federated Learning with Buffered Asynchronous Aggregation},
  author = {Nguyen, John and Malik, Kshitiz and Zhan, Hongyuan and Yousefpour, Ashkan and Rabbat, Mike and Malek, Mani and
            Huba, Dzmitry},
  booktitle = {Artificial Intelligence and Statistics (AISTATS)},
  year = {2022}
}"""

FEDASYNC = """@article{xie2019fedasync,
  title = {Asynchronous Federated Optimization},
  author = {Xie, Cong and Koyejo, Sanmi and Gupta, Indranil},
  journal = {arXiv preprint arXiv:1903.03934},
  year = {2019}
}"""

ZOOPFL = """@article{lu2023zoopfl,
  title = {{ZooPFL}: Exploring Black-box Foundation Models for Personalized Federated Learning},
  author = {Lu, Wang and Yu, Hao and Wang, Jindong and Teney, Damien and Wang, Haohan and Chen, Yiqiang and Yang, Qiang and
            Xie, Xing and Ji, Xiangyang},
  journal = {arXiv preprint arXiv:2310.05143},
  year = {2023}
}"""

MOON = """@inproceedings{li2021model,
  title = {Model-Contrastive Federated Learning},
  author = {Li, Qinbin and He, Bingsheng and Song, Dawn},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)},
  year = {2021}
}"""

KNN_PER = """@inproceedings{marfoq2022personalized,
  title = {Personalized Federated Learning through Local Memorization},
  author = {Marfoq, Othmane and Neglia, Giovanni and Vidal, Richard and Kameni, Laetitia},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2022}
}"""

CODISTIL = """@inproceedings{anil2018large,
  title = {Large Scale Distributed Neural Network Training through Online Distillation},
  author = {Anil, Rohan and Pereyra, Gabriel and Passos, Alexandre and Ormandi, Robert and Dahl, George E. and Hinton,
            Geoffrey E.},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2018}
}"""

FEDMD = """@article{li2019fedmd,
  title = {{FedMD}: Heterogenous Federated Learning via Model Distillation},
  author = {Li, Daliang and Wang, Junpu},
  journal = {arXiv preprint arXiv:1910.03581},
  year = {2019}
}"""

FEDDF = """@inproceedings{lin2020ensemble,
  title = {Ensemble Distillation for Robust Model Fusion in Federated Learning},
  author = {Lin, Tao and Kong, Lingjing and Stich, Sebastian U. and Jaggi, Martin},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020}
}"""

MOCHA = """@inproceedings{smith2017federated,
  title = {Federated Multi-Task Learning},
  author = {Smith, Virginia and Chiang, Chao-Kai and Sanjabi, Maziar and Talwalkar, Ameet S.},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2017}
}"""
