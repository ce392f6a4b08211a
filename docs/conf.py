"""Sphinx: what is not here is in the pages themselves or in _ext/fedtier_pages."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
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
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_math_renderer = "mathml"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# Notebooks are run when the site is built and what they print is kept beside the site, so that an unchanged one is not run again.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
add_module_names = False
nitpicky = True
nitpick_ignore_regex = [("py:.*", r".*")] if False else [("py:class", r"(jax|numpy|optax|pydantic|typing|collections)\b.*")]
copybutton_prompt_text = r"\$ "
