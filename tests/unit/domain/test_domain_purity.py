"""The domain reads no clock, network, file or random source, and needs no heavy package."""

import ast
from pathlib import Path

import pytest

import bat_events.domain.vocabulary as vocabulary

ALLOWED = {
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "array",
    "hashlib",
    "hmac",
    "json",
    "math",
    "re",
    "types",
    "typing",
    "unicodedata",
}
# Decoding and vectorised hashing: pure too, and in core.
LEAKAGE = {
    "base64", "binascii", "confusable_homoglyphs", "html", "itertools", "numpy", "rensa", "urllib", "zlib",
}  # fmt: skip
MODULES = sorted(Path(vocabulary.__file__).parent.rglob("*.py"))


def imports(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            assert node.module is not None
            found.add(node.module)
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_domain_module_imports_only_pure_things(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for name in imports(tree):
        if name == "scipy.special":
            assert module.stem == "statistics"
            continue
        allowed = ALLOWED | (LEAKAGE if module.parent.name == "leakage" else set())
        assert name.startswith("bat_events.domain.") or name.split(".")[0] in allowed, f"{module.name} imports {name}"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_scipy_is_imported_only_when_a_quantile_is_asked_for(module: Path) -> None:
    top = ast.Module(body=list(ast.parse(module.read_text(encoding="utf-8")).body), type_ignores=[])
    direct = {name for node in top.body if isinstance(node, ast.Import | ast.ImportFrom) for name in imports(node)}
    assert not any(name.startswith("scipy") for name in direct)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_domain_module_opens_and_prints_nothing(module: Path) -> None:
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"open", "print", "input", "exec", "eval", "hash", "id"}
