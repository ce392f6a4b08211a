"""A site in a process of its own: killed, stopped, chatty; its parent gets one answer per letter or none in time."""

import os
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest

from fedtier.protocol import SolverProcess, loopback, process

from . import toy

ECHO = f"""
import runpy, sys, time
answer_letters = runpy.run_path({process.__file__!r})["answer_letters"]  # the file alone: this child needs no JAX
def answer(letter):
    print("noise")
    if letter == b"slow": time.sleep(1.0)
    if letter == b"die": raise SystemExit(3)
    return letter[::-1]
answer_letters(answer)
"""


@pytest.fixture
def echo():
    solver = SolverProcess([sys.executable, "-c", ECHO])
    yield solver
    solver.close()


def test_letters_of_any_length_come_back_whatever_the_child_prints(echo):
    for letter in (b"", b"abc", os.urandom(3_000_000)):
        assert echo.answer(letter) == letter[::-1]
    assert echo.launches == 1


def test_a_child_may_begin_before_there_is_a_letter(echo):
    echo.begin()
    pid = echo.pid
    echo.begin()
    assert echo.answer(b"abc") == b"cba" and echo.pid == pid is not None and echo.launches == 1


def test_an_answer_that_comes_too_late_is_dropped_and_never_taken_for_another(echo):
    assert echo.answer(b"warm") == b"mraw"
    assert echo.answer(b"slow", seconds=0.2) is None
    assert echo.answer(b"next") == b"txen" and echo.launches == 1


def test_a_stopped_child_costs_no_more_than_the_time_given_and_goes_on_afterwards(echo):
    assert echo.answer(b"warm") == b"mraw"
    os.kill(echo.pid, signal.SIGSTOP)
    clock = time.monotonic()
    assert echo.answer(b"abc", seconds=0.3) is None and time.monotonic() - clock < 5
    os.kill(echo.pid, signal.SIGCONT)
    assert echo.answer(b"next") == b"txen" and echo.launches == 1


def test_a_child_that_hangs_is_ended_and_the_next_letter_finds_another():
    solver = SolverProcess([sys.executable, "-c", ECHO], hung=5.0)
    try:
        assert solver.answer(b"warm") == b"mraw"
        os.kill(solver.pid, signal.SIGSTOP)
        solver.hung = 0.3
        assert solver.answer(b"abc") is None and solver.pid is None
        solver.hung = 60.0
        assert solver.answer(b"next") == b"txen" and solver.launches == 2
        assert solver.answer(b"slow", seconds=0.2) is None and solver.pid is not None  # late is not hung
    finally:
        solver.close()


def test_a_dead_child_is_started_again_and_a_letter_that_kills_it_is_given_up(echo):
    assert echo.answer(b"warm") == b"mraw"
    os.kill(echo.pid, signal.SIGKILL)
    assert echo.answer(b"abc") == b"cba" and echo.launches == 2
    assert echo.answer(b"die") is None
    assert echo.answer(b"abc") == b"cba"


@pytest.mark.slow
@pytest.mark.checked
def test_a_site_killed_at_random_moments_of_many_rounds_ends_with_the_same_bits(tmp_path):
    rounds, clients = 12, 3
    plan = toy.bumpy(rounds, clients)
    plan = plan._replace(ids=np.tile(np.asarray([0, 1], np.int32), (rounds, 1)))

    def play(name, kills):
        seconds = "0.05"
        child = SolverProcess([sys.executable, "-m", "tests.protocol.toy_site", "1", str(tmp_path / name), seconds])
        others = {f"site-{i}": toy.site(i).answer for i in (0, 2)}
        over, dice = threading.Event(), random.Random(3)

        def hunt():
            for _ in range(kills):
                while not over.is_set() and child.pid is None:
                    time.sleep(0.01)
                over.wait(dice.uniform(0.0, 0.3) + (0.4 if child.launches == 1 else 0.0))
                if not over.is_set() and child.pid is not None:
                    os.kill(child.pid, signal.SIGKILL)
                    before = child.launches
                    while not over.is_set() and child.launches == before:
                        time.sleep(0.01)
                    over.wait(answered.wait(20) and 0.0)
                    answered.clear()

        answered = threading.Event()

        def answer(letter):
            reply = child.answer(letter)
            answered.set()
            return reply

        driver = toy.driver(plan, clients, loopback({**others, "site-1": answer}), deadline=60.0)
        thread = threading.Thread(target=hunt)
        ledger = driver.start(toy.first(clients))
        thread.start()
        for number in range(rounds):
            ledger, _ = driver.play_round(ledger, number)
        over.set()
        answered.set()
        thread.join()
        child.close()
        return ledger, child.launches

    whole, once = play("whole", 0)
    killed, launches = play("killed", 4)
    assert once == 1 and launches >= 3
    assert np.array_equal(whole.server.x, killed.server.x) and np.array_equal(whole.last, killed.last)
    assert not killed.silent.any() and not killed.refused.any()
