#!/usr/bin/env python3
"""What models learn, against what is known of their data, serially and under plans.

    learning_test.py PROGRAM [--only CONFIG.PLAN] [--list] [--xml FILE]

Trains each configuration of the table in full, once serially and once under every plan of its line: CONFIG.serial, CONFIG.dp4 and so on. The held-out loss must come near to
an entropy that is computed and not measured, or a measure of images reach a bound. Each plan is also compared with the serial program by
`tessera verify`, tensor by tensor within tolerances that follow from rounding: how far two long runs drift apart says little, since a
kink of a relu makes much of a rounding."""
import json
import pathlib
import subprocess
import sys

from support import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Configuration, plans beside the serial one, and what must be reached: (result, at most, relative to) or (result, at least).
CASES = {
    "lstm": (["dp4", "tp4", "pp2"], ("val_loss", 1.03, "entropy_rate")),
    "gru": (["dp4", "tp4", "pp2"], ("val_loss", 1.03, "entropy_rate")),
    "gpt_markov": (["dp4", "tp4", "pp2"], ("val_loss", 1.03, "entropy_rate")),
    "bert": (["dp4", "tp4", "pp2"], ("val_loss", 1.05, "masked_entropy")),
    "image_mlp": (["dp4", "tp4", "pp2"], ("val_accuracy", 0.93)),
    "resnet20": (["dp2", "dp2-m2", "tp2", "sp2", "pp2"], ("val_accuracy", 0.95)),
    "unet": (["dp2", "tp2", "sp2", "pp2"], ("val_intersection_over_union", 0.9)),
}
SMALL = ["train.batch=8"]  # for the reference interpreter, which is slow


def run(program, command, config, plan, *more):
    """The object that a command prints."""
    words = [program, command, f"configs/{config}.toml", "--plan", f"configs/plans/{config}.{plan}.json", "--json", *more]
    done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.stdout.startswith("{") and done.returncode in (0, 6), f"{' '.join(map(str, words))}\n{done.stderr}{done.stdout}"
    return json.loads(done.stdout)


def is_reached(result, wanted):
    if len(wanted) == 2:
        return result[wanted[0]] >= wanted[1], f"{wanted[0]} {result[wanted[0]]:.4f}, at least {wanted[1]}"
    bound = result[wanted[2]]
    # Nothing falls below the entropy but by the luck of a finite held-out part.
    return 0.98 * bound <= result[wanted[0]] <= wanted[1] * bound, \
        f"{wanted[0]} {result[wanted[0]]:.4f}, {wanted[2]} {bound:.4f}, ratio {result[wanted[0]] / bound:.4f} of at most {wanted[1]}"


def check(program, config, plan):
    wanted = CASES[config][1]
    reached, words = is_reached(run(program, "train", config, plan), wanted)
    print(f"{config}.{plan}: {words}", flush=True)
    assert reached, f"it did not reach {words}"
    if plan != "serial":
        assert run(program, "verify", config, plan, "--steps", "1", "--set", *SMALL)["ok"], "it does not agree with the serial program"


def main():
    options = cases.parser(__doc__, "program").parse_args()
    program = pathlib.Path(options.program).resolve()
    pairs = [(config, plan) for config, (plans, _) in CASES.items() for plan in ["serial", *plans]]
    made = [cases.Named(f"{config}.{plan}", lambda pair=(config, plan): check(program, *pair)) for config, plan in pairs]
    return cases.run(made, options)


if __name__ == "__main__":
    sys.exit(main())
