#!/usr/bin/env python3
"""Every family of models under pipelines, with data and tensor parallelism, in 1, 2, 4 and 8 micro-batches, against the serial program.

    python3 tests/verify_families.py build/release/src/cli/tessera [--steps 20] [FAMILY ...]

Runs `tessera verify` at small sizes, dropout on, for 5 families x 3 plans x 4 numbers of micro-batches, and compares the losses of 1 and 8
micro-batches. Takes minutes, so the tests run only a part of it (engine_test, EveryPlan)."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAMILIES = ["gpt", "gpt_tied", "llama", "two_tower", "encoder_decoder"]
PLANS = ["pp2", "pp2-dp2", "pp2-dp2-tp2"]
MICRO_BATCHES = [1, 2, 4, 8]
SIZES = ["train.batch=8", "model.width=48", "model.context=16", "model.dropout=0.1", "data.max_bytes=200000"]


def verify(program, family, plan, micro_batches, steps):
    """The report of one run, as an object."""
    document = json.loads((ROOT / f"configs/plans/{family}.{plan}.json").read_text())
    document["micro_batches"] = micro_batches
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "plan.json"
        file.write_text(json.dumps(document))
        command = [program, "verify", f"configs/{family}.toml", "--plan", file, "--steps", str(steps), "--json", "--set", *SIZES]
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("program")
    arguments.add_argument("families", nargs="*", default=FAMILIES)
    arguments.add_argument("--steps", type=int, default=20)
    given = arguments.parse_args()
    failures = 0
    for family in given.families or FAMILIES:
        for plan in PLANS:
            reports = {m: verify(pathlib.Path(given.program).resolve(), family, plan, m, given.steps) for m in MICRO_BATCHES}
            one, eight = reports[1], reports[8]
            apart = [abs(a - b) / (x + y) for a, b, x, y in
                     zip(one["losses"], eight["losses"], one["loss_tolerances"], eight["loss_tolerances"])]
            ok = all(report["ok"] for report in reports.values()) and max(apart) <= 1
            failures += not ok
            print(f"{family:16} {plan:12} m=1,2,4,8: {'ok' if ok else 'NOT OK'}, {one['tensors']} tensors a step, at most "
                  f"{max(report['max_error'] for report in reports.values()):.2f} of the tolerance; losses of m=1 and m=8 at most "
                  f"{max(apart):.2g} of theirs apart", flush=True)
            for m, report in reports.items():
                if not report["ok"]:
                    print(f"  m={m}: {report['first_difference']}")
    return 6 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
