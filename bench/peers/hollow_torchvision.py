"""FedLab and fluke import torchvision for data sets and nets that no workload uses, and its binary must match PyTorch's build;
a hollow module stands in for it. Import this before either."""

import contextlib
import importlib
import sys
from unittest.mock import MagicMock

for name in ("datasets", "torchmetrics"):  # these look for torchvision and do without it: before the hollow one is there
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
for name in ("torchvision", "torchvision.datasets", "torchvision.models", "torchvision.transforms"):
    sys.modules[name] = MagicMock()
