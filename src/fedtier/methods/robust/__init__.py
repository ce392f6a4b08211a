"""Robust aggregation: FedAvg whose server takes something else than the mean, so that a few wrong replies move it little."""
