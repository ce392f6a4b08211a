"""Flower's ClientApp. A module of its own, so that Ray's actors import it and keep rows and model between messages.

The message says which client is meant: any node may play any client, whose rows every actor has in memory."""

from functools import cache, lru_cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from stored import task
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch_net import net, tensors

app = ClientApp()


@lru_cache
def workshop():
    torch.set_num_threads(1)
    stored = task()
    return stored, tensors(stored), net(stored)


@cache
def rows_of(client: int) -> TensorDataset:
    stored, (inputs, labels), _ = workshop()
    rows = stored.rows(client)
    return TensorDataset(inputs[rows], labels[rows])


@app.train()
def train(message: Message, context: Context) -> Message:
    stored, _, model = workshop()
    work, data = stored.work, rows_of(message.content["config"]["client"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    sampler = RandomSampler(data, replacement=True, num_samples=work.steps * work.batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=work.lr)
    for rows, targets in DataLoader(data, batch_size=work.batch, sampler=sampler):
        optimizer.zero_grad()
        functional.cross_entropy(model(rows), targets).backward()
        optimizer.step()
    reply = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(data)})})
    return Message(content=reply, reply_to=message)
