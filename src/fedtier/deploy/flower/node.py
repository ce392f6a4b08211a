# pyright: reportMissingImports=false
"""A site's end of the wire, inside Flower's ClientApp: hands letters to a site and its replies back.

Flower starts a process for each message, so the site is opened for each and remembers on its own disk; where its files
lie, the node's own configuration says, never a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from ...errors import require
from .names import LETTER, PARTITION, RECORD


def client_app(answer: Callable[[dict[str, Any], bytes], bytes]) -> ClientApp:
    """Flower's ClientApp around `answer(node_config, letter)`."""
    app = ClientApp()

    @app.query()
    def roll_call(message: Message, context: Context) -> Message:
        index = context.node_config.get(PARTITION)
        whole = isinstance(index, int) and not isinstance(index, bool)
        require(whole, PARTITION, index, "must be this node's number", f"--node-config '{PARTITION}=0 ...'")
        return _reply(message, PARTITION, index)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        letter = message.content.config_records[RECORD][LETTER]
        return _reply(message, LETTER, answer(dict(context.node_config), letter))  # pyright: ignore[reportArgumentType]

    return app


def _reply(message: Message, key: str, value: Any) -> Message:
    return Message(RecordDict({RECORD: ConfigRecord({key: value})}), reply_to=message)
