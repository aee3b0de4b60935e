#!/usr/bin/env python3
"""The protocols of the run half, as small models that spin checks state by state; and that it finds the faults planted into them.

    models_test.py [--root ROOT] [--only NAME] [--list] [--xml FILE]

Says "skipped" when spin or a C compiler is not installed. Python's standard library only.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support import cases

# Each model, and each fault with what spin says of it.
MODELS = {
    "src/task_graph/actors/actor.pml": {
        "LOST_RETURN": "invalid end state",
        "EARLY_FILL": "assertion violated",
        "SMALL_MAILBOX": "assertion violated",
    },
    "src/runtime/comm/mailbox.pml": {
        "LATE_ASLEEP": "invalid end state",
        "HASTY_ROUSE": "invalid end state",
    },
}


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    return done.stdout + done.stderr


def check(model, compiler, fault=None):
    """What the checker of the model says, with one fault planted."""
    with tempfile.TemporaryDirectory() as folder:
        said = run(["spin", *([f"-D{fault}"] if fault else []), "-a", str(model)], folder)
        if not (Path(folder) / "pan.c").exists():
            return said
        said += run([compiler, "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], folder)
        return said + run(["./pan", "-m100000"], folder)


def without_faults(said):
    """Statements that no run reached would be a model that checks nothing: spin lists them, and says "(0 of N states)" when there are none."""
    return "\n".join(line for line in said.splitlines() if "unreached in" not in line and "(0 of" not in line)


def case_of(root, name, compiler, fault=None, complaint=None):
    def check_one():
        said = check(root / name, compiler, fault)
        if fault:
            assert complaint in said, f"expected '{complaint}':\n{said}"
        else:
            holds = "errors: 0" in said and "max search depth too small" not in said and "unreached" not in without_faults(said)
            assert holds, f"it does not hold:\n{said}"
    return cases.Named(f"{Path(name).stem}{f' with {fault}' if fault else ''}", check_one)


def main():
    parser = cases.parser(__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent, help="the project")
    options = parser.parse_args()
    compiler = next((name for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and shutil.which(name)), None)
    if not shutil.which("spin") or not compiler:
        print("models_test: skipped: spin and a C compiler are needed")
        return 0
    made = []
    for name, faults in MODELS.items():
        made += [case_of(options.root.resolve(), name, compiler, *fault) for fault in [(), *faults.items()]]
    return cases.run(made, options)


if __name__ == "__main__":
    sys.exit(main())
