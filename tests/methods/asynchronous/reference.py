"""An asynchronous federation in plain NumPy: an event queue in which every job carries the model it began with.

There is no plan, no staleness table and no ring here: the server's version is counted as it goes. Only the random draws (who
begins, who is late, whose reply is lost) come from the same generator, in the same order.
"""

import heapq
from typing import NamedTuple

import numpy as np

CLIENTS, N, C = 6, 3, 0.4
START = np.asarray([1.0, -2.0, 0.5])
TAUS = np.asarray([1.0, 2.0, 0.6, 3.0, 1.4, 0.9])


class Reply(NamedTuple):
    age: int
    x: np.ndarray  # the model it began with
    y: np.ndarray  # the model it ended with
    steps: int


def trained(x, b, steps, rho=0.0):
    """H steps of size C/(t + 1) on |y - b|^2/2 + rho |y - x|^2/2 from y = x."""
    y = x
    for t in range(steps):
        y = y - C / (t + 1.0) * ((y - b) + rho * (y - x))
    return y


def play(seed, slowness, b, *, step_seconds, latency, working, buffer, server_steps, stragglers, dropouts, update, rho=0.0):
    """(x, the time of each server step, the ages of all replies, how many were lost) after `server_steps` steps."""
    who = np.random.default_rng(seed)
    late, lost = who.spawn(2)
    idle, queue, waiting = list(range(len(slowness))), [], []
    x, version, now, begun, times, ages, gone = START, 0, 0.0, 0, [], [], 0

    def begin():
        nonlocal begun
        place = int(who.integers(len(idle)))
        idle[place], idle[-1] = idle[-1], idle[place]
        i = idle.pop()
        planned = int(np.ceil(TAUS[i] * np.sqrt(version + 1.0)))
        steps = 0 if late.random() < stragglers else planned
        arrives = lost.random() >= dropouts
        due = now + (latency + step_seconds * slowness[i] * planned)
        heapq.heappush(queue, (due, begun, i, version, x, steps, arrives))
        begun += 1

    while version < server_steps:
        while idle and len(queue) < working:
            begin()
        now = queue[0][0]
        while queue and queue[0][0] == now and version < server_steps:
            waiting.append(heapq.heappop(queue)[2:])
            if len(waiting) == buffer:
                came = [(version - born, model, i, steps) for i, born, model, steps, arrives in waiting if arrives]
                x = update(x, [Reply(age, model, trained(model, b[i], steps, rho), steps) for age, model, i, steps in came])
                ages += [version - born for _, born, *_ in waiting]
                gone += buffer - len(came)
                idle += sorted(i for i, *_ in waiting)
                version, waiting = version + 1, []
                times.append(now)
    return x, np.asarray(times), np.asarray(ages), gone
