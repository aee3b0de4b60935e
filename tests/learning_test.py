#!/usr/bin/env python3
"""What models learn, against what is known of their data, serially and under plans.

    python3 tests/learning_test.py build/release/src/cli/tessera [CONFIG ...]

Trains each configuration of the table in full, once serially and once under every plan of its line. The held-out loss must come near to
an entropy that is computed and not measured (or the accuracy reach a bound), and the plans must end where the serial run ends: their steps
are the same up to rounding, so the held-out losses differ by far less than the distance to the bound."""
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Configuration, plans beside the serial one, and what must be reached: (result, at most, relative to) or (result, at least).
CASES = {
    "lstm": (["dp4", "tp4", "pp2"], ("val_loss", 1.03, "entropy_rate")),
    "gru": (["dp4", "tp4", "pp2"], ("val_loss", 1.03, "entropy_rate")),
    "gpt_markov": (["dp4", "tp4", "pp2"], ("val_loss", 1.03, "entropy_rate")),
    "bert": (["dp4", "tp4", "pp2"], ("val_loss", 1.05, "masked_entropy")),
    "image_mlp": (["dp4", "tp4", "pp2"], ("val_accuracy", 0.93)),
}
# Of two held-out losses. Rounding grows with the steps; where it would change what is learned it would be this large.
APART = 1e-4


def train(program, config, plan):
    command = [program, "train", f"configs/{config}.toml", "--plan", f"configs/plans/{config}.{plan}.json", "--json"]
    begin = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if not done.stdout.startswith("{") or done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}{done.stdout}")
    return json.loads(done.stdout), time.monotonic() - begin


def is_reached(result, wanted):
    if len(wanted) == 2:
        return result[wanted[0]] >= wanted[1], f"{wanted[0]} {result[wanted[0]]:.4f}, at least {wanted[1]}"
    bound = result[wanted[2]]
    # Nothing falls below the entropy but by the luck of a finite held-out part.
    return 0.98 * bound <= result[wanted[0]] <= wanted[1] * bound, \
        f"{wanted[0]} {result[wanted[0]]:.4f}, {wanted[2]} {bound:.4f}, ratio {result[wanted[0]] / bound:.4f} of at most {wanted[1]}"


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    failures = 0
    for config in sys.argv[2:] or CASES:
        plans, wanted = CASES[config]
        serial = None
        for plan in ["serial", *plans]:
            result, seconds = train(program, config, plan)
            serial = serial or result
            reached, words = is_reached(result, wanted)
            apart = abs(result["val_loss"] - serial["val_loss"])
            first = abs(result["losses"][0] - serial["losses"][0])
            agrees = apart <= APART and first <= 1e-5 * serial["losses"][0]
            failures += not (reached and agrees)
            print(f"{config:12} {plan:8} {'ok' if reached and agrees else 'NOT OK':6} {words}; {apart:.1e} from the serial run, "
                  f"{first:.0e} at the first step; {seconds:.0f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
