"""Words that both ends of the wire and the supervisors use; no import of FLARE, so that anything may import them."""

TOPIC = "fedtier"  # of a request to a site
PROGRESS = "fedtier_progress"  # of an administrator's question to the running job
LETTER = "letter"  # the one value of a request and of its answer
PLAY = "FEDTIER_PLAY"  # environment of the server's job: package.module:function, called with an `ask`
NOTE = "FEDTIER_NOTE"  # environment of the server's job: package.module:function, called with a line for the run's log
KEYS = "FEDTIER_KEYS"  # environment of the server's job: the file with the server's signing key
RATE = "FEDTIER_RATE"  # environment of FLARE's server: bytes and messages a second that each party may send
HUNG = "FEDTIER_HUNG"  # environment of a site's job: seconds after which a solver that has not answered is ended
SOLVER = "FEDTIER_SOLVER"  # environment of a site's job: the command of the process that answers letters, as JSON
