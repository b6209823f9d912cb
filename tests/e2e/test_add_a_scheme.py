"""docs/add-a-scheme.md, followed literally, and norm placements of the user's own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN = """
from ln_repro.model import Residual

class Mine(Residual):
    final_norm = True

    def forward(self, x, branch):
        return x + self.drop(branch(self.norm(x)))
"""
COUNTS = OWN.replace("class Mine(Residual):", "import random\n\nclass Mine(Residual):\n    calls = [0]").replace(
    "x + ", "x + self.calls[0] / 100 * "
)
LACKS = "Mine.forward in {file} depends on what a checkpoint lacks; keep state with register_buffer"


@pytest.mark.slow
def test_the_document_leads_to_a_run_and_a_plan(tmp_path, tool):
    text = (ROOT / "docs" / "add-a-scheme.md").read_text()
    (name,), (code,) = re.findall(r"Save this as `(.+?)`", text), re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    (tmp_path / name).write_text(code)
    tool("ln-repro", f'exec "{sys.executable}" -m ln_repro.cli "$@"')
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run, plan = (
        subprocess.run(["sh", "-ec", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        for line in re.findall(r"```sh\n(.+?)```", text, re.DOTALL)
    )
    assert (run.returncode, plan.returncode) == (0, 0), run.stderr + plan.stderr
    record = json.loads((Path(run.stdout.strip()) / "record.json").read_text())
    assert (record["axes"]["norm"], record["updates"], record["status"]) == ("Gated", 50, "finished")
    assert record["settings"]["norm_file"]["text"] == code
    assert plan.stdout.count("toy_preln_nowarm_anchored") == plan.stdout.count("toy_preln_warm") == 3 * 7


def test_a_scheme_of_ones_own_trains_and_decodes_and_is_known_by_its_content(command, finished, tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    own = command("own", f"norm.file={tmp_path / 'mine.py'}", "norm=my.Mine", "train.max_epoch=1")
    own.complete()
    record, plain = (run.record for run in (own, finished))
    assert record["axes"]["norm"] == "my.Mine" and record["settings"]["norm_file"] == {"name": "my.Mine", "text": OWN}
    assert record["id"] != plain["id"] and record["epochs"] == plain["epochs"][:1]  # it is Pre-LN
    assert (own.folder / "scheme.py").read_text() == OWN

    (tmp_path / "mine.py").rename(tmp_path / "moved.py")
    status, _, error = own.call_here("run", *own.arguments, f"norm.file={tmp_path / 'moved.py'}")
    assert status == 0 and "already finished" in error


@pytest.mark.parametrize(("overrides", "message"), [
    ("norm=Mine norm.file=none.py", "norm.file: {here}/none.py cannot be read (No such file or directory)"),
    ("norm.file=mine.py", "norm.file: give norm=NAME norm.file=PATH"),
    ("norm=Mine", "(norm.file=PATH gives a file of your own)"),
    ("norm=Yours norm.file=mine.py", "norm.file: {here}/mine.py defines no class 'Yours'; it defines Mine"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["run exp=toy_preln_nowarm", "sweep grid=design --only *_preln_warm --dry-run"])
def test_a_file_without_the_scheme_is_one_line(command, overrides, message, empty_place, refused):
    (empty_place / "mine.py").write_text(OWN)
    assert message.format(here=empty_place) in refused(f"{command} {overrides}")
    assert [path.name for path in empty_place.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(("text", "message"), [
    ("class Mine: pass", "Mine in {file} is not a subclass of ln_repro.model.Residual"),
    ("from ln_repro.model import *\nclass Mine(Residual): pass", "Mine in {file} defines no forward("),
    (OWN.replace("x + ", "x +* "), "{file} fails with SyntaxError: "),
    (OWN.replace("self.drop", "math.sqrt"), "{file}, line 8, fails with NameError: name 'math' is not defined"),
    (OWN.replace("return", "y ="), "Mine.forward in {file} returns a NoneType for self_attn of layer 0;"),
    (OWN.replace("x + self", "x[0]  # "), "{file} returns a tensor of shape (2, 64) for self_attn of layer 0;"),
    (OWN.replace("x + ", "x / 0 + "), "shape (5, 2, 64) with numbers that are not finite for self_attn of layer 0;"),
    (OWN.replace("return x + self", "x += self").replace("norm(x)))", "norm(x)))\n        return x"),
     "{file} fails with RuntimeError: one of the variables needed for gradient computation has been modified"),
    (COUNTS.replace("return", "if self.training: self.calls[0] += 1\n        return"), LACKS),
    (COUNTS.replace("return", "if self.training: Mine.calls[0] += 1\n        return"), LACKS),
    (COUNTS.replace("return", "if self.training: self.calls = [random.random()]\n        return"), LACKS),
    (COUNTS.replace("return", "self.calls[0] += 1\n        return"),
     "Mine.forward in {file} gives other results for the same input in evaluation; "),
    (OWN.replace("return", "self.after = self.new_norm(64)\n        return"),
     "Mine.forward in {file} makes 'layers.0.ffn_residual.after.bias', which a checkpoint would lack"),
    (OWN.replace("x + ", "x.mean(1, keepdim=True) + "), "Mine.forward in {file} mixes sentences; "),
    (OWN.replace("x + ", "x.roll(-1, 0) + "), "Mine.forward in {file} lets the decoder see later tokens; "),
    (OWN.replace("x + ", "x[:5] + "), "{file}, line 8, fails with RuntimeError: The size of tensor a (5) must match"),
])  # fmt: skip
def test_a_mistake_in_a_scheme_is_found_before_anything_is_prepared(text, message, empty_place, refused):
    (empty_place / "mine.py").write_text(text)
    error = refused("run exp=toy_preln_nowarm norm=Mine norm.file=mine.py", "norm.file: ")
    assert message.format(file=empty_place / "mine.py") in error
    assert [path.name for path in empty_place.iterdir()] == ["mine.py"]
