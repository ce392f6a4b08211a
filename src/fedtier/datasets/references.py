"""What to cite for a published data set, and the licence that its publisher states, where one does."""

from __future__ import annotations

CITATIONS = {
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
    "fed-heart-disease": """@inproceedings{terrail2022flamby,
  title = {{FLamby}: Datasets and Benchmarks for Cross-Silo Federated Learning in Realistic Healthcare Settings},
  author = {Ogier du Terrail, Jean and Ayed, Samy-Safwan and Cyffers, Edwige and others},
  booktitle = {Advances in Neural Information Processing Systems, Datasets and Benchmarks Track},
  year = {2022}
}""",
    "activity": """@inproceedings{anguita2013activity,
  title = {A Public Domain Dataset for Human Activity Recognition Using Smartphones},
  author = {Anguita, Davide and Ghio, Alessandro and Oneto, Luca and Parra, Xavier and Reyes-Ortiz, Jorge Luis},
  booktitle = {European Symposium on Artificial Neural Networks (ESANN)},
  year = {2013}
}""",
    "qmnist": """@inproceedings{yadav2019qmnist,
  title = {Cold Case: The Lost {MNIST} Digits},
  author = {Yadav, Chhavi and Bottou, L{\\'e}on},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2019}
}""",
    "spoken-digits": """@misc{jackson2018spoken,
  title = {Free Spoken Digit Dataset},
  author = {Jackson, Zohar and others},
  howpublished = {https://github.com/Jakobovski/free-spoken-digit-dataset},
  year = {2018}
}""",
    "chem97": """@article{fielding2003chem97,
  title = {Multilevel models for ordinal examination grades},
  author = {Fielding, Antony and Yang, Min and Goldstein, Harvey},
  journal = {Statistical Modelling},
  volume = {3}, number = {2}, pages = {127--153},
  year = {2003}
}""",
    "exam-scores": """@article{goldstein1993exam,
  title = {A Multilevel Analysis of School Examination Results},
  author = {Goldstein, Harvey and Rasbash, Jon and Yang, Min and Woodhouse, Geoffrey and Pan, Huiqi and Nuttall, Desmond and
            Thomas, Sally},
  journal = {Oxford Review of Education},
  volume = {19}, number = {4}, pages = {425--433},
  year = {1993}
}""",
}

LICENCES = {
    "digits": "CC BY 4.0 (UCI Machine Learning Repository)",
    "heart-disease": "CC BY 4.0 (UCI Machine Learning Repository)",
    "fed-heart-disease": "CC BY 4.0 (UCI Machine Learning Repository)",
    "activity": "CC BY 4.0 (UCI Machine Learning Repository)",
    "fashion-mnist": "MIT",
    "spoken-digits": "CC BY-SA 4.0",
}
