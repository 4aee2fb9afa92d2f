"""The import rules: which part of the tree may know which, read from the sources, and tried by really importing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STEPS = ("prepare", "filter", "train", "evaluate")
OURS = ("cli", "components", "pipeline", "demo", "bench", "tests")
# What pulls in torch when it is imported.
HEAVY = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes")
# The part of components/shared that holds a model in its hands: loading, sampling, sampling and grading.
MODEL_MODULES = tuple(f"components.shared.{name}" for name in ("models", "sampling", "batches", "attempts", "kept"))
MAY_IMPORT_TORCH = (
    *(f"components/{step}/" for step in ("filter", "train", "evaluate")),
    *(module.replace(".", "/") + ".py" for module in MODEL_MODULES),
)
FACES = tuple(f"components/{name}.py" for name in ("check", "fetch_model", "publish", "reused", "skip", "finish"))
MAY_IMPORT_KFP = (
    "pipeline.py",
    *FACES,
    "components/pods.py",
    "cli/",
    *(f"components/{step}/component.py" for step in STEPS),
)


def sources(folder: str) -> list[Path]:
    found = sorted(path for path in (ROOT / folder).rglob("*.py"))
    assert found, f"{folder} holds no sources"
    return found


def imports(path: Path, *, everywhere: bool) -> set[str]:
    """Full names of the modules that a file imports: everywhere, or where they run when the file is imported."""
    names: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import, which hides what it names"
            names |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
        if everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            nodes += ast.iter_child_nodes(node)
    return names


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("step", STEPS)
def test_a_step_knows_no_other_step(step):
    others = tuple(f"components.{other}" for other in STEPS if other != step)
    for path in sources(f"components/{step}"):
        wrong = [name for name in imports(path, everywhere=True) if within(name, others)]
        assert not wrong, f"{place(path)} imports {wrong}"


def test_what_is_shared_knows_no_step_and_no_face():
    above = (*(f"components.{step}" for step in STEPS), "components.check", "components.pods", "pipeline", "cli")
    for path in sources("components/shared"):
        wrong = [name for name in imports(path, everywhere=True) if within(name, above)]
        assert not wrong, f"{place(path)} imports {wrong}"


def test_components_know_neither_the_command_line_nor_the_pipeline():
    for path in sources("components"):
        wrong = [name for name in imports(path, everywhere=True) if within(name, ("cli", "pipeline", "tests", "demo"))]
        assert not wrong, f"{place(path)} imports {wrong}"


def test_only_what_needs_a_model_imports_torch():
    for path in [*sources("components"), *sources("cli"), ROOT / "pipeline.py"]:
        if not place(path).startswith(MAY_IMPORT_TORCH):
            wrong = [name for name in imports(path, everywhere=True) if within(name, HEAVY)]
            assert not wrong, f"{place(path)} imports {wrong}"


def test_the_sandbox_knows_nothing_of_ours_and_no_model_library():
    for path in sources("images/sandbox"):
        wrong = [name for name in imports(path, everywhere=True) if within(name, (*OURS, *HEAVY, "kfp"))]
        assert not wrong, f"{place(path)} imports {wrong}"


def test_kfp_stays_at_the_faces():
    for path in [*sources("components"), *sources("images"), *sources("demo")]:
        if not place(path).startswith(MAY_IMPORT_KFP):
            wrong = [name for name in imports(path, everywhere=True) if within(name, ("kfp",))]
            assert not wrong, f"{place(path)} imports {wrong}"


@pytest.mark.parametrize("step", STEPS)
def test_a_face_imports_nothing_but_kfp_and_its_image(step):
    face = ROOT / f"components/{step}/component.py"
    assert imports(face, everywhere=False) <= {"kfp", "kfp.dsl", "components.images", "components.images.image"}


def test_nothing_heavy_is_imported_where_no_model_is_needed():
    """Transitively, in one fresh interpreter: the pipeline, the command line, prepare and all that is shared."""
    modules = ["pipeline"]
    for folder in ("cli", "components/prepare", "components/shared"):
        modules += [place(path)[:-3].replace("/", ".") for path in sources(folder)]
    modules += [place(path)[:-3].replace("/", ".") for path in sorted((ROOT / "components").glob("*.py"))]
    modules = [name.removesuffix(".__init__") for name in modules if name not in MODEL_MODULES]
    heavy = (*HEAVY, "datasets")
    program = (
        f"import importlib, sys\n"
        f"for name in {modules!r}:\n"
        f"    importlib.import_module(name)\n"
        f"    found = [heavy for heavy in {heavy!r} if heavy in sys.modules]\n"
        f"    assert not found, f'{{name}} imports {{found}}'\n"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
