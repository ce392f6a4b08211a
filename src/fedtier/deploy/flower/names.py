"""Words that both ends use; no import of Flower, so that anything may import them."""

RECORD = "fedtier"  # of a message's content: one ConfigRecord
LETTER = "letter"  # its one value: bytes
PARTITION = "partition-id"  # which client a node is: its own configuration says so, its node id says nothing
ROLL_CALL = "query"  # message type: says which client a node is; loads no data and no solver
ROUND = "train"  # message type: carries a letter; Flower knows no type of ours
