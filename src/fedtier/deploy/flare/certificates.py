# pyright: reportMissingImports=false
"""Certificates and configurations of some parties, by FLARE's own builders under the federation's authority.

A party's key is made here, or it has sent a signing request and keeps its key to itself (`requests`). Either way the
authority's folder keeps no key but the authority's own: FLARE's record would hold those of all parties.
"""

from __future__ import annotations

import contextlib
import datetime
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import FedtierError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

ORG = "fedtier"
ROLE = "project_admin"
DAYS = 360  # that a party's certificate holds


class Subjects(NamedTuple):
    """Who is in the federation, and the names in its certificates."""

    name: str
    server: str
    port: int
    users: tuple[str, ...]  # the administrators: a person's, and the server's own
    sites: tuple[str, ...]
    valid_days: int


def build(who: Subjects, authority: Path, keys: Mapping[str, RSAPublicKey | None], since: Callable[[str], int]) -> Path:
    """A folder with a kit for each subject in `keys`, signed for its public key, or with a new private key where that is None.
    No certificate begins before `since(subject)`, the moment (seconds since the epoch) at which earlier ones were revoked."""
    from nvflare.lighter.constants import CtxKey
    from nvflare.lighter.entity import Project, participant_from_dict
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    project = Project(name=who.name, description="", props={"api_version": 3})
    server = {"name": who.server, "type": "server", "org": ORG, "fed_learn_port": who.port}
    admins = ({"name": user, "type": "admin", "org": ORG, "role": ROLE} for user in who.users)
    for party in (server, *admins, *({"name": site, "type": "client", "org": ORG} for site in who.sites)):
        project.add_participant(participant_from_dict(party))
    builders = [WorkspaceBuilder(), StaticFileBuilder(config_folder="config", scheme="tcp"), _signer(who, keys, since)]
    words = io.StringIO()
    with contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
        context = Provisioner(str(authority.resolve()), builders).provision(project)
    if context.get(CtxKey.BUILD_ERROR):
        raise FedtierError("provision", who.name, f"FLARE could not make the kits:\n{words.getvalue()}")
    return Path(context[CtxKey.CURRENT_PROD_DIR])


def _signer(who: Subjects, keys: Mapping[str, RSAPublicKey | None], since: Callable[[str], int]) -> Any:
    """FLARE's builder of certificates, for those in `keys` alone."""
    from nvflare.lighter.constants import ParticipantType, PropKey
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.utils import generate_keys, serialize_cert, serialize_pri_key

    class Signer(CertBuilder):
        def _build_write_cert_pair(self: Any, participant: Any, base_name: str, ctx: Any) -> None:
            subject = participant.subject
            if subject not in keys:
                return
            folder, public = Path(ctx.get_kit_dir(participant)), keys[subject]
            if public is None:
                secret, public = generate_keys()
                (folder / f"{base_name}.key").write_bytes(serialize_pri_key(secret))
            (folder / f"{base_name}.crt").write_bytes(serialize_cert(self._certificate(participant, public)))
            (folder / "rootCA.pem").write_bytes(self.serialized_cert)

        def _certificate(self: Any, participant: Any, public: RSAPublicKey) -> Any:
            now = datetime.datetime.now(datetime.UTC)
            begins = max(now, datetime.datetime.fromtimestamp(since(participant.subject), datetime.UTC))
            last = self.root_cert.not_valid_after_utc
            if last <= now:
                raise FedtierError("authority", who.name, f"ran out on {last:%Y-%m-%d}", "make a new one: another --out")
            admin, server = (participant.type == kind for kind in (ParticipantType.ADMIN, ParticipantType.SERVER))
            role = participant.get_prop(PropKey.ROLE) if admin else None
            return self._generate_cert(
                participant.subject, participant.org, self.issuer, self.pri_key, public, role=role,
                server=participant if server else None, not_valid_before=begins,
                not_valid_after=min(last, begins + datetime.timedelta(days=DAYS)),
            )  # fmt: skip

        def finalize(self: Any, project: Any, ctx: Any) -> None:
            state = self.persistent_state
            state.content = {key: state.content[key] for key in (state.PROP_ROOT_CERT, state.PROP_ROOT_PRI_KEY)}
            state.persist()

    return Signer(root_valid_days=who.valid_days)
