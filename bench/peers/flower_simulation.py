"""Flower's simulation: its FedAvg strategy over Ray, one actor per core, PyTorch clients, no evaluation inside the rounds."""

import os

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}

import flower_client
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from stored import Clock, finish, task
from torch_net import accuracy, net

clock = Clock()
stored = task()
work = stored.work
app = ServerApp()
model = net(stored)


class Planned(FedAvg):
    def configure_train(self, server_round, arrays, config, grid):
        """One message a client of the stored plan, to any node."""
        pairs = zip(sorted(grid.get_node_ids()), stored.ids[server_round - 1].tolist(), strict=False)
        return [
            Message(RecordDict({"arrays": arrays, "config": ConfigRecord({"client": client})}), node, "train")
            for node, client in pairs
        ]

    def aggregate_train(self, server_round, replies):
        result = super().aggregate_train(server_round, replies)
        clock.lap(server_round)
        return result


@app.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < work.cohort:
        pass
    strategy = Planned(fraction_evaluate=0.0)
    result = strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=work.rounds)
    model.load_state_dict(result.arrays.to_torch_state_dict())


if __name__ == "__main__":
    torch.set_num_threads(1)
    cores = len(os.sched_getaffinity(0))
    run_simulation(
        app, flower_client.app, num_supernodes=work.clients,
        backend_config={"init_args": {"num_cpus": cores, "log_to_driver": False}, "client_resources": {"num_cpus": 1}},
    )  # fmt: skip
    finish(clock, accuracy(stored, model), "flwr", "ray", "torch")
