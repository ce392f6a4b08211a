"""A toy site in a process of its own: python -m tests.protocol.toy_site NUMBER FOLDER SECONDS"""

import sys
import time
from pathlib import Path

from fedtier.protocol import answer_letters

from . import toy

if __name__ == "__main__":
    number, folder, seconds = int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    site = toy.site(number, folder)

    def answer(letter: bytes) -> bytes:
        time.sleep(seconds)  # before: a kill finds the round not begun
        reply = site.answer(letter)
        time.sleep(seconds)  # after: it finds the state moved and the reply unsent
        print("chatter that must not get between the frames")
        return reply

    answer_letters(answer)
