"""Sphinx: what is not here is in the pages themselves or in _ext/fedtier_pages."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"
sys.path.insert(0, str(HERE / "_ext"))

import fedtier  # noqa: E402

project = "fedtier"
author = "the fedtier authors"
release = version = fedtier.__version__
html_title = f"fedtier {release}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "fedtier_pages.mathml",
    "fedtier_pages.fill",
]
exclude_patterns = ["_ext", "figures"]
html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "home_page_in_toc": False,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navigation_with_keys": False,
    "navbar_end": [],
    "navbar_persistent": [],
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_math_renderer = "mathml"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# Notebooks are run when the site is built; what they print is kept, so that an unchanged one is not run again.
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILD / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
add_module_names = False
nitpicky = True
nitpick_ignore_regex = [("py:class", r"(jax|numpy|optax|pydantic|typing|collections|pathlib)\b.*")]
copybutton_prompt_text = r"\$ "

# What the notebooks' processes see: the command `fedtier`, the examples, and compiled programs kept from one build to the next.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent / "examples"), os.environ.get("PYTHONPATH", "")])
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(BUILD / "compiled"))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ["COLUMNS"] = "110"
