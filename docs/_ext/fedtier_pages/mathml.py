"""Mathematics as MathML, made from LaTeX while the site is built: the pages need no script and no network.

Browsers draw MathML themselves. They need a font with a MATH table, which many systems lack, so STIX Two Math (SIL Open Font
License) is copied out of the package ziamath into the site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ziamath
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.fileutil import copy_asset_file

FONT = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="equation">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def copy_font(app: Sphinx) -> None:
    (Path(app.outdir) / "_static").mkdir(parents=True, exist_ok=True)
    copy_asset_file(FONT, Path(app.outdir) / "_static" / FONT.name)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    app.connect("builder-inited", copy_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
