"""Messages that have come are forgotten after their time by one thread, however many there are."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from fedtier.deploy.flare.sweeper import Later, Sweeper, install

pytestmark = pytest.mark.flare


def test_functions_are_called_in_time_in_order_and_not_when_cancelled() -> None:
    sweeper, called, done = Sweeper(), list[str](), threading.Event()
    before = threading.active_count()
    clock = time.monotonic()
    Later(sweeper, 0.2, lambda: (called.append("late"), done.set())).start()
    for _ in range(500):
        Later(sweeper, 0.05, lambda: called.append("early")).start()
    Later(sweeper, 0.06, lambda: 1 / 0).start()  # stops nobody
    gone = Later(sweeper, 0.1, lambda: called.append("cancelled"))
    gone.start()
    gone.cancel()
    assert threading.active_count() <= before + 1
    assert done.wait(10) and time.monotonic() - clock >= 0.2
    assert called == ["early"] * 500 + ["late"]


def test_flare_s_messages_are_forgotten_without_a_thread_each() -> None:
    from nvflare.fuel.f3.streaming.byte_receiver import RxTask

    install()
    install()
    cell = SimpleNamespace()
    tasks = [RxTask(number, "north.job", cell) for number in range(200)]
    threads = threading.active_count()
    for task in tasks:
        RxTask.rx_task_map["north.job", task.sid] = task
        task._schedule_remove_task(0.3)
        task._schedule_remove_task(0.3)  # a second one counts no more
    assert threading.active_count() <= threads + 1
    ends = time.monotonic() + 10
    while time.monotonic() < ends and any(key[0] == "north.job" for key in RxTask.rx_task_map):
        time.sleep(0.05)
    assert not [key for key in RxTask.rx_task_map if key[0] == "north.job"]
