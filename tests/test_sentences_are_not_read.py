"""No code reads a sentence of ours back: what is needed later is a field or a code.

The check finds, in the source, regular expressions and tests of text (``in``, ``startswith``, ``split`` and more) that
look for English: a literal with two words, or applied to what holds a sentence by its name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "warpgauge"
# Where text is looked into that is not ours, or that only an old file has; each with its reason.
ALLOWED = {
    ("project/document.py", r"\d+ points? of a lattice over the foreground of the fixed image"): "documents 1 and 2",
    ("project/document.py", r"\d+ points? from (domain|mask|labels|file)\b"): "documents 1 and 2",
    ("io/images/nrrd_files.py", "space directions"): "a field of a header",
    ("io/images/nrrd_files.py", "axis mins"): "a field of a header",
    ("io/images/nrrd_files.py", "space origin"): "a field of a header",
    ("io/transforms/image_fields.py", "measurement frame"): "a field of a header",
    ("io/transforms/image_fields.py", "space directions"): "a field of a header",
    ("io/landmarks/napari_points.py", "axis-"): "a column of a file",
    ("io/transforms/freesurfer.py", "\ndst volume info"): "a heading of a file",
    ("web/security.py", "frame-ancestors 'none'"): "a directive of a policy",
    ("web/failures.py", "Value error, "): "pydantic's own prefix",
}
METHODS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit",
           "find", "index", "replace", "count"}  # fmt: skip
REGULAR = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split"}
# Names of what holds a sentence.
SENTENCES = {"sentence", "verdict", "message", "question", "notice", "notices", "title", "words", "caption", "reason"}
ENGLISH = re.compile(r"[A-Za-z]{2,}[,;:]? \W?[A-Za-z]{2,}")


def _name(node: ast.expr) -> str:
    """The last name of an expression: ``found.verdict`` is ``verdict``, ``str(error)`` is ``error``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        return _name(node.args[0])
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _literals(nodes: list[ast.expr]) -> list[str]:
    parts = [part for node in nodes for part in (node.elts if isinstance(node, ast.Tuple) else [node])]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def looked_into(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Every test of a text: its line, the literal, and the name of what is tested."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            regular = isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in REGULAR
            if not regular and node.func.attr not in METHODS:
                continue
            tested = _name(node.args[1]) if regular and len(node.args) > 1 else _name(node.func.value)
            for literal in _literals(node.args[:1]):
                yield node.lineno, literal, tested
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            for literal in _literals([node.left]):
                yield node.lineno, literal, _name(node.comparators[0])


def _reads_a_sentence(literal: str, tested: str) -> bool:
    return bool(ENGLISH.search(literal)) or tested in SENTENCES or (tested == "error" and bool(literal.strip()))


def test_no_code_reads_a_sentence_back() -> None:
    """Each place that does is listed above with its reason, and nothing is listed that is not there."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for line, literal, tested in looked_into(ast.parse(path.read_text("utf-8"))):
            if _reads_a_sentence(literal, tested):
                found[name, literal] = f"{name}:{line}: {literal!r} is looked for in {tested or 'a text'}"
    assert [said for key, said in found.items() if key not in ALLOWED] == []
    assert [key for key in ALLOWED if key not in found] == []


def test_the_check_finds_what_it_is_for() -> None:
    """The places that there were: a message matched, a display name, a prefix, a cut sentence, a search."""
    sources = [
        'if "There are no annotations yet" in str(error): pass',
        'name.startswith("kernel weights")',
        'sentence.startswith("note:")',
        'text = question.removeprefix("This is ")',
        're.search(r"over (the .*? image)", method)',
        'if "worse" in str(verdict): pass',
    ]
    for source in sources:
        assert any(_reads_a_sentence(literal, tested) for _, literal, tested in looked_into(ast.parse(source))), source
    for source in (
        'path.name.endswith(".nii.gz")',
        'text.split(",")',
        'if "/" in name: pass',
        're.sub("[^a-z]", "", x)',
    ):
        assert not any(_reads_a_sentence(literal, one) for _, literal, one in looked_into(ast.parse(source))), source
