"""The directions between packages, the conventions of every module, and that the project can be packaged."""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "ln_repro"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAY_IMPORT = {  # what each package may import of those below it
    "cli": {"commands", "system"},
    "commands": {"claims", "corpus", "engine", "experiment", "model", "records", "report", "runner", "sweep", "system",
                 "theory", "tracking"},
    "sweep": {"corpus", "experiment", "records", "system"},
    "runner": {"corpus", "engine", "experiment", "model", "records", "system", "tracking"},
    "report": {"claims", "experiment", "records", "system"},
    "theory": {"claims", "model", "records", "system"},
    "claims": {"experiment", "records", "system"},
    "tracking": {"experiment", "records", "system"},
    "corpus": {"experiment", "system"},
    "engine": {"experiment", "model", "records", "system"},
    "model": {"experiment"},
    "records": {"experiment", "system"},
    "experiment": {"system"},
    "system": set(),
}  # fmt: skip
OPEN_TO_ALL = {"errors", "version"}
KNOWN_IN = {  # a heavy library: where it may be imported
    "fairseq": {"engine"}, "wandb": {"tracking"}, "hydra": {"experiment"}, "matplotlib": {"report"},
    "torch": {"engine", "model", "theory"}, "submitit": {"sweep"}, "benchmarks": set(),
}  # fmt: skip


def package(path: Path) -> str:
    """Return the package of a module: the first part of its path."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Yield the full name of everything a module imports, at its head or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_packages_form_no_circle_and_are_few():
    for above, names in enumerate(MAY_IMPORT.values()):
        assert names <= set(list(MAY_IMPORT)[above + 1 :])  # a package imports only from rows below its own
    entries = {path.name for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "conf")}
    assert {name.removesuffix(".py") for name in entries} == {*MAY_IMPORT, *OPEN_TO_ALL, "__init__"}


def test_a_module_imports_only_what_its_package_may():
    for path in MODULES:
        here = package(path)
        for name in imports(path):
            top, _, rest = name.partition(".")
            there = rest.split(".")[0]
            if top == "ln_repro":
                assert there in {here, *OPEN_TO_ALL, *MAY_IMPORT[here]}, f"{path} imports {name}"
            elif top in KNOWN_IN:
                assert here in KNOWN_IN[top], f"{path} imports {top}"


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("engine.plugin", "ln_repro.engine.plugin."), ("commands", "ln_repro.commands.messages")],
)
def test_a_plug_in_imports_nothing_of_the_engine_and_no_command_another(folder, expected):
    around = f"ln_repro.{folder.partition('.')[0]}."
    for path in PACKAGE.joinpath(*folder.split(".")).rglob("*.py"):
        assert all(name.startswith(expected) for name in imports(path) if name.startswith(around)), path


def test_what_starts_a_run_loads_neither_torch_nor_fairseq_nor_wandb():
    code = (
        "import sys; import ln_repro.runner.run, ln_repro.report.tables, ln_repro.records.archive\n"
        "import ln_repro.records.status, ln_repro.claims.judge\n"
        "print(sorted({'torch', 'fairseq', 'wandb', 'matplotlib', 'hydra'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "[]\n"


def test_a_module_is_short_and_says_what_it_is():
    for path in MODULES:
        text = path.read_text()
        tree = ast.parse(text)
        assert len(text.splitlines()) <= 400 and ast.get_docstring(tree), path
        assert path.name != "__init__.py" or path.parent.name == "model" or len(tree.body) == 1, path


def test_no_file_names_a_place_on_somebodys_machine():
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    place = re.compile(r"(?<![\w.:/])/(home|Users|root|work|mnt|opt|tmp)/\w+")
    for path in (ROOT / name for name in listed.stdout.split("\0") if name):
        if path.is_file() and path != Path(__file__).resolve() and path.suffix not in (".xz", ".png"):
            assert not place.findall(path.read_text("utf-8")), path


def test_make_help_lists_every_target_of_the_contract():
    if not shutil.which("make"):
        pytest.skip("no make")
    for arguments in (["help"], []):
        done = subprocess.run(["make", "-s", "-C", ROOT, *arguments], capture_output=True, text=True, check=True)
        listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}
        assert set(listed) >= {"help", "setup", "demo", "test", "check", "bench", "reproduce-tables", "clean"}
        assert all(listed.values())


GOOD_PYTHON = "exit 0"
OLD_PYTHON = 'case "$1" in -V) echo "Python 3.9.2";; *) exit 1;; esac'
NO_VENV = 'case "$2" in *ensurepip*) exit 1;; esac'
NO_HEADERS = 'case "$2" in *Python.h*) exit 1;; esac'


@pytest.mark.parametrize(("tools", "words"), [
    ({"c++": ""}, ["is needed; found: none", "apt-get install python3.11", "make setup PYTHON="]),
    ({"python3": OLD_PYTHON, "c++": ""}, ["is needed; found: Python 3.9.2", "apt-get install python3.11"]),
    ({"python3": NO_VENV, "c++": ""}, ["no venv module", "apt-get install python3-venv"]),
    ({"python3": NO_HEADERS, "c++": ""}, ["no C headers", "apt-get install python3-dev"]),
    ({"python3": GOOD_PYTHON}, ["no C++ compiler", "apt-get install g++", "xcode-select --install"]),
    ({"python3": GOOD_PYTHON, "g++": ""}, []),
], ids=lambda value: ", ".join(value) or "everything")  # fmt: skip
def test_setup_says_in_one_line_what_a_machine_lacks(tools, words, tmp_path, tool):
    for name in ("bash", "sh", "basename", "readlink"):
        if (program := shutil.which(name)) is None:
            pytest.skip("not a Unix")
        (tmp_path / "tools" / name).symlink_to(program)
    for name, script in tools.items():
        tool(name, script)
    done = subprocess.run(["bash", ROOT / "scripts" / "check_machine.sh", "python3"], capture_output=True, text=True,
                          env={"PATH": str(tmp_path / "tools")}, check=False)  # fmt: skip
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout, len(lines)) == ((2, "", 1) if words else (0, "", 0))
    assert all(line.startswith("setup: ") and word in line for line in lines for word in words)


def test_the_wheel_brings_the_configuration_and_composes_from_it(tmp_path):
    pytest.importorskip("hatchling")
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("ln_repro", "conf"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / done.stdout.splitlines()[-1]) as wheel:
        names = set(wheel.namelist())
        wheel.extractall(tmp_path / "installed")
    ours = {f"ln_repro/{path.relative_to(ROOT)}" for path in (ROOT / "conf").rglob("*.yaml")}
    assert ours and ours <= names
    assets = {str(path.relative_to(ROOT)) for path in (PACKAGE / "report" / "assets").iterdir()}
    assert "ln_repro/report/assets/page.html" in assets and assets <= names
    assert not any(name.startswith(("tests", "results", "scripts", "benchmarks")) for name in names)
    code = (
        "import sys; from ln_repro import cli\n"
        "from ln_repro.experiment import compose\n"
        "assert compose.CONF.parent.parent.name == 'installed'\n"
        "sys.exit(cli.main(['run', 'exp=iwslt_preln_nowarm', '--cfg', 'job']))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert "exp: iwslt_preln_nowarm\n" in ran.stdout and "name: iwslt14\n" in ran.stdout
