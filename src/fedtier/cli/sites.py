"""Commands of a federation between sites: provision, serve, join, record, flower."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ..errors import require
from .shared import Place, Track, show


def provision(
    file: tyro.conf.Positional[Path],
    out: Path = Path("kits"),
    renew: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PARTY")] = (),
    sign: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="REQUEST")] = (),
    json: bool = False,
) -> None:
    """Make kits for a federation over NVIDIA FLARE: one for the server, one for each site, one for an administrator.

    The kits hold private keys, which are made here: right for a rehearsal. With --sign the kits hold none, for each party has
    made its own with `fedtier request`.

    Args:
        file: sites.toml: name, server (the host sites dial), port, sites.
        out: Folder of the kits and of the authority that signs them; kits that are there stay as they are.
        renew: Parties that get a new key and certificate.
        sign: Files of `fedtier request`; only these parties get a kit now, without private keys.
        json: One JSON object on stdout instead of words.
    """
    from ..deploy.flare.commands import make_kits, sign_requests

    if sign:
        require(not renew, "--renew", renew, "makes keys here", "--sign alone: a party renews its own by another request")
        signed, prints, own = sign_requests(file, out, sign)
        if json:
            show({"kits": str(out), "written": signed.written, "requests": prints, "authority": own})
            return
        told = [f"written: {out / name}  (request {prints[name]})" for name in signed.written]
        show("\n".join([*told, f"no private key is in them; the authority's fingerprint is {own}", _asks(signed.written)]))
        return
    kits = make_kits(file, out, renew)
    if json:
        show({"kits": str(kits.folder), "written": kits.written, "kept": kits.kept})
        return
    lines = [f"written: {kits.folder / name}" for name in kits.written]
    if lines:
        lines.append("these kits hold private keys that were made here: who reads one on its way is that party")
        lines.append("for keys that never leave their party: `fedtier request`, then `fedtier provision --sign`")
    show("\n".join([*lines, f"keep {kits.folder / 'authority'} to yourself: whoever has it can make kits"]))


def _asks(names: list[str]) -> str:
    return "hand over, then there: " + "; ".join(f"fedtier request {name} --answer {name}" for name in names)


def request(name: tyro.conf.Positional[str], out: Place = None, answer: Place = None, json: bool = False) -> None:
    """Ask for a certificate with keys that are made here and never leave; or take the answer and have a whole kit.

    Args:
        name: This party: a site's name, server or admin.
        out: Folder of the kit; default: the name. A kit that is there works on until the answer is taken.
        answer: The folder that the authority has sent back, from `fedtier provision --sign`.
        json: One JSON object on stdout instead of words.
    """
    from ..deploy.flare.commands import request_certificate

    kit = out or Path(name)
    print_ = request_certificate(name, kit, answer)
    file = kit.with_name(f"{name}.request")
    if json:
        show({"kit": str(kit), "fingerprint": print_} | ({"request": str(file)} if answer is None else {}))
    elif answer is None:
        show(f"written: {file}, for whoever keeps the authority; its fingerprint is {print_}\nthe private keys stay in {kit}")
    else:
        show(f"{kit} is a whole kit; it trusts the authority with the fingerprint\n{print_}\nis it the one you were told?")


def revoke(
    parties: tyro.conf.Positional[tuple[str, ...]],
    kits: Path = Path("kits"),
    json: bool = False,
) -> None:
    """Take back all certificates and signing keys of parties: the server refuses them, and cuts them off within seconds.

    Args:
        parties: Sites, or admin. A party comes back with a new certificate only.
        kits: Folder of the authority and of the kits that it has signed.
        json: One JSON object on stdout instead of words.
    """
    from ..deploy.flare.commands import revoke_parties

    found = revoke_parties(kits, parties)
    file = kits / "authority" / "revoked.json"
    if json:
        show({"file": str(file), "number": found.number, "revoked": sorted({one.party for one in found.revoked})})
        return
    show(f"revoked: {', '.join(parties)} (list {found.number})\ncopy {file} into the server's kit where that lies elsewhere")


def serve(
    kit: tyro.conf.Positional[Path], run: Path, out: Place = None, evaluate: Place = None, track: Track = (), json: bool = False
) -> None:
    """Serve a run to the sites over NVIDIA FLARE; restarts what dies, and goes on with a run that was stopped.

    Args:
        kit: The server's kit, from `fedtier provision`.
        run: run.toml, a configuration with a table [wire].
        out: Folder of the results; the same folder goes on with its run. Default: runs/wire/ and a name by the
            configuration, as `compare --store runs/wire` finds it.
        evaluate: A run's folder or a bundle: its model is measured at the sites, and nothing is trained.
        track: Send every row to a tracker as well, from this process: tensorboard or mlflow. May be repeated.
        json: One JSON object on stdout instead of a table.
    """
    from ..deploy.flare.commands import serve_run
    from ..reports.tracking import trackers

    if evaluate is not None:
        from ..deploy.evaluation import evaluation_file
        from ..reports.evaluation import evaluation_table, measured

        out = out or Path("runs/wire") / "evaluation"
        row = serve_run(kit, evaluation_file(run, evaluate, out), out, trackers(track)).final[-1]
        found = measured(out)
        shown = {"folder": str(out), "server": row["global_accuracy"], "sites": [one._asdict() for one in found]}
        show(shown if json else evaluation_table(found, row["global_accuracy"]))
        return
    from ..reports.terminal import final_object, run_table

    result = serve_run(kit, run, out, trackers(track))
    show(final_object(result) if json else run_table(result))


def join(kit: tyro.conf.Positional[Path], state: Path, data: Place = None, site: Place = None) -> None:
    """Join a federation as a site: answers the server's rounds until stopped; restarts what dies.

    Args:
        kit: This site's kit, from whoever ran `fedtier provision`.
        state: Folder for what the site remembers between rounds and restarts.
        data: This site's rows: .npz, .csv, .parquet or a folder of images. They never leave this machine.
        site: site.toml, this site's own limits: max_steps, seconds, participation, radius, proximity, ...
    """
    from ..deploy.flare.joining import check_and_join

    check_and_join(kit, data, state, site)


def record(folder: tyro.conf.Positional[Path], against: Place = None, json: bool = False) -> None:
    """Verify the record of all letters that came and went at a site or at a server: was a line changed, removed or put in?

    Args:
        folder: A site's state folder, or the folder of a run between sites.
        against: The other end's folder: whatever one end has received, the other must have sent.
        json: One JSON object on stdout instead of words.
    """
    from ..protocol.audit import compare_records
    from ..protocol.record import verify_record

    place = _record_in(folder)
    found = verify_record(place)
    both = None if against is None else compare_records(place, _record_in(against))
    if json:
        show(found._asdict() | ({} if both is None else {"against": both._asdict()}))
        return
    words = f"{found.lines} lines from number {found.first} on: {found.letters} letters and replies, {found.refused} refusals"
    words += f"\nevery line follows from the one before it; the last one's hash is\n{found.last}"
    if both is not None:
        words += f"\nboth ends agree on {both.letters} letters to {both.site} and {both.replies} replies"
        words += f"; lost on the way: {both.lost_letters} letters, {both.lost_replies} replies"
    show(words)


def _record_in(folder: Path) -> Path:
    within = folder / "memory"  # where `join` keeps it
    return within if within.exists() else folder


def flower(
    folder: tyro.conf.Positional[Path], run: Path, out: Place = None, keys: Path = Path("keys"), json: bool = False
) -> None:
    """Write the app folder with which `flwr run` plays a run between sites over Flower, and the keys that sign its letters.

    Args:
        folder: The app's folder, a new one.
        run: run.toml, a configuration with a table [wire].
        out: Folder of the results, on the server; the same folder goes on with its run. Default: runs/wire/ and a name
            by the configuration.
        keys: Folder of the signing keys: authority.json, server.json and a file for each site; those that are there stay.
        json: One JSON object on stdout instead of words.
    """
    from ..deploy.flower.folder import write_app

    written = write_app(folder, run, out, keys)
    if json:
        show({"app": str(written), "keys": str(keys)})
        return
    show(f"written: {written}\nhand each site its own file of {keys}, and keep {keys / 'authority.json'} to yourself")
