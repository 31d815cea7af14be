"""How Sphinx builds these pages (``make docs``): no network, warnings are errors, mathematics as MathML."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import docutils.nodes
from docutils.utils.math import latex2mathml
from sphinx import addnodes
from sphinx.ext import autosummary

import warpgauge
import warpgauge.web  # before autodoc, under which FastAPI cannot make its models

project = "warpgauge"
author = copyright = "The warpgauge authors"  # noqa: A001 - the name that Sphinx looks for
version = release = warpgauge.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
# Notebooks hold their outputs: a test runs them, and python tests/notebook_tools.py stores the outputs anew.
nb_execution_mode = "off"
nb_merge_streams = True
suppress_warnings: list[str] = []
exclude_patterns = ["generated/formats.md"]  # formats.md includes it

# The first sentence of a docstring may cite an equation.
autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.", "Eqs.")

# Every reference in the text has to lead somewhere. Types are left out: docstrings say them in words ("(n, d) array"),
# and signatures name numpy's and the standard library's, whose indexes would have to be fetched from another host.
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "imported-members": True}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes as a list: dataclass fields would be described twice otherwise
highlight_language = "none"  # a block that names no language is a command or a file
default_role = "code"  # `single backticks` in a docstring are code, as in Markdown

html_theme = "furo"
html_title = f"warpgauge {release}"
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["_static"]
html_css_files = ["warpgauge.css"]


# docutils sets the index of an accented letter below it, as a limit; it belongs beside it.
_ACCENTED = re.compile(
    r"<munderover>\s*(<mi[^/]*</mi>)\s*(<m[in]>[^<]*</m[in]>)\s*(<mo[^/]*[ˆ~¯]</mo>)\s*</munderover>"
)


def _mathml(tex: str, *, as_block: bool = False) -> str:
    written = latex2mathml.tex2mathml(tex, as_block=as_block)
    return _ACCENTED.sub(r"<msub><mover>\1\3</mover>\2</msub>", written)


def _inline(translator: Any, node: docutils.nodes.math) -> None:
    translator.body.append(_mathml(node.astext()))
    raise docutils.nodes.SkipNode


def _block(translator: Any, node: docutils.nodes.math_block) -> None:
    translator.body.append(f"<div>{_mathml(node.astext(), as_block=True)}</div>")
    raise docutils.nodes.SkipNode


def _leave_types_in_words(_app: Any, doctree: docutils.nodes.document) -> None:
    """Undo the references that Sphinx makes of every word of a type in a docstring, but for names of classes."""
    for reference in list(doctree.findall(addnodes.pending_xref)):
        shown = reference.children[0]
        is_class = re.fullmatch(r"[A-Z]\w*[a-z]\w*", reference.get("reftarget", ""))
        if isinstance(shown, addnodes.literal_emphasis) and not is_class:
            reference.replace_self(shown)


def _name_attributes_apart(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Write "a, b : type" among the attributes as two entries, as napoleon does among the parameters."""
    starts = [i for i, line in enumerate(lines[:-1]) if line == "Attributes" and set(lines[i + 1]) == {"-"}]
    for at in reversed(range(starts[0] + 2, len(lines)) if starts else range(0)):
        if found := re.fullmatch(r"(\w+(?:, \w+)+)( : .*)?", lines[at]):
            end = at + 1
            while end < len(lines) and lines[end].startswith(" "):
                end += 1
            entries = [[name + (found[2] or ""), *lines[at + 1 : end]] for name in found[1].split(", ")]
            lines[at:end] = [line for entry in entries for line in entry]


def _trim_examples(_app: Any, doctree: docutils.nodes.document) -> None:
    """Leave out the empty line that doctest needs at the end of an example."""
    for block in doctree.findall(docutils.nodes.literal_block):
        text = block.astext().rstrip("\n")
        if len(block.children) == 1 and text != block.astext():
            block.rawsource = text
            block.children = []
            block.append(docutils.nodes.Text(text))


# A long name in a cell may be broken after a dot or an underscore, so that a table fits its page.
_CELL, _CODE = re.compile(r"<td.*?</td>", re.S), re.compile(r'(?<=<span class="pre">)[^<]+')


def _let_names_break(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    def breakable(name: re.Match[str]) -> str:
        return re.sub(r"(?<=\w)([._])(?=\w)", r"\1<wbr>", name[0])

    if "body" in context:
        context["body"] = _CELL.sub(lambda cell: _CODE.sub(breakable, cell[0]), context["body"])


# Aliases of types are spelled out by autodoc; these are their names again. A default that is made anew is dots.
_ARRAY = r"[\w.~]*ndarray\[tuple\[[\w.~]*Any, \.\.\.\], [\w.~]*dtype\[[~]?(?:numpy\.|typing\.)?(\w+)\]\]"
_ARRAY_LIKE = r"[\w.~]*_Buffer \| [\w.~]*_SupportsArray\[.*?_NestedSequence\[complex \| bytes \| str\]"


def _named(text: str | None) -> str | None:
    if text is None:
        return None
    text = re.sub(_ARRAY, r"NDArray[\1]", re.sub(_ARRAY_LIKE, "ArrayLike", text))
    return text.replace("NDArray[float64]", "Floats").replace("<factory>", "...")


def _name_aliases(*event: Any) -> tuple[str | None, str | None]:
    signature, returned = event[-2:]
    return _named(signature), _named(returned)


def _generate(_app: Any) -> None:
    """Write the command reference and the tables of files: they are built from the program, not kept in git."""
    sys.path.insert(0, str(Path(__file__).parent))
    from pages import formats, reference

    folder = Path(__file__).parent / "generated"
    folder.mkdir(exist_ok=True)
    for name, text in (("commands.md", reference()), ("formats.md", formats())):
        target = folder / name
        if not target.is_file() or target.read_text("utf-8") != text:
            target.write_text(text, "utf-8")


def setup(app: Any) -> None:
    """Register the renderer: browsers show MathML themselves, where MathJax would come from another host."""
    app.connect("config-inited", lambda app, _config: _generate(app))
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-process-signature", _name_aliases)
    app.connect("doctree-read", _leave_types_in_words)
    app.connect("autodoc-process-docstring", _name_attributes_apart, priority=100)  # before napoleon
    app.connect("doctree-read", _trim_examples)
    app.connect("html-page-context", _let_names_break)
