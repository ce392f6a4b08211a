"""Every annotation of the package is checked at run time in tests: shapes by jaxtyping, types by beartype."""

import os

os.environ.setdefault("FEDTIER_CACHE", "")  # commands started by tests compile afresh unless a test says otherwise

from jaxtyping import install_import_hook

# An int is a fine float, as in the language itself.
install_import_hook("fedtier", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))").__enter__()
