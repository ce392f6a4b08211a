"""fedtier: federated learning on two levels."""

__version__ = "0.1.0"
