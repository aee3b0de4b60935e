#!/usr/bin/env python3
"""The protocols of the run half, as small models that spin checks state by state; and that it finds the faults planted into them.

    models_test.py [ROOT]

Says "skipped" when spin or a C compiler is not installed. Python's standard library only.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Each model, and each fault with what spin says of it.
MODELS = {
    "src/actors/actor.pml": {
        "LOST_RETURN": "invalid end state",
        "EARLY_FILL": "assertion violated",
        "SMALL_MAILBOX": "assertion violated",
    },
    "src/comm/mailbox.pml": {
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
        said += run([compiler, "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], folder)
        return said + run(["./pan", "-m100000"], folder)


def main(root):
    compiler = next((name for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and shutil.which(name)), None)
    if not shutil.which("spin") or not compiler:
        print("models_test: skipped: spin and a C compiler are needed")
        return 0
    failures = 0
    for name, faults in MODELS.items():
        said = check(root / name, compiler)
        holds = "errors: 0" in said and "max search depth too small" not in said and "unreached" not in without_faults(said)
        if not holds:
            failures += 1
            print(f"models_test: {name} does not hold:\n{said}")
        for fault, complaint in faults.items():
            said = check(root / name, compiler, fault)
            if complaint not in said:
                failures += 1
                print(f"models_test: {name} with {fault}: expected '{complaint}':\n{said}")
    print(f"models_test: {len(MODELS)} models, {sum(map(len, MODELS.values()))} faults, {failures} failures")
    return 1 if failures else 0


def without_faults(said):
    """Statements that no run reached would be a model that checks nothing: spin lists them, and says "(0 of N states)" when there are none."""
    return "\n".join(line for line in said.splitlines() if "unreached in" not in line and "(0 of" not in line)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()))
