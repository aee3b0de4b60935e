#!/usr/bin/env python3
"""Plans that are found, beside those that experts make by hand, as the tables of docs/plans.md.

    python3 bench/gallery.py PROGRAM [CASE...]

Each row is a model on a cluster: the plan of an expert, which is a preset that the literature has for
such a model, with its simulated step; the plan that is found; how much shorter its step is; and where
the expert's plan loses the difference, in the mean over the ranks: kernels, exchanges that no kernel
hides, waits. A plan that does not fit the memory has no step. Everything is in f32. CASE is a part of
the model's and the cluster's names: "llama", "laptop", "GPT-3". The CPU time and the memory of all
plan searches are at the end.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

from planner_cases import GPT, RESNET, UNET, changed, config_file

RACKS = os.path.join(os.path.dirname(__file__), "..", "configs", "clusters", "racks_of_ascend.toml")


def gpt(layers, width, heads, context, vocabulary, batch, kind="gpt", **model):
    return changed(GPT, model={"kind": kind, "layers": layers, "width": width, "heads": heads,
                               "context": context, **model},
                   data={"vocabulary": vocabulary}, train={"batch": batch})


LSTM = {
    "model": {"kind": "lstm", "context": 32, "layers": 2, "width": 1024, "embedding": 512,
              "dropout": 0.0},
    "data": {"kind": "jsonl", "vocabulary": 16384},
    "train": {"batch": 64},
    "optimizer": {"kind": "adamw", "clip_norm": 1.0},
}
# Name, configuration.
MODELS = [
    ("gpt, 12 layers x 768", gpt(12, 768, 12, 512, 32768, 64)),
    ("llama, 8 layers x 2048", gpt(8, 2048, 16, 512, 32768, 32, "llama", kv_heads=8)),
    ("bert, 12 layers x 768", changed(gpt(12, 768, 12, 256, 30522, 64, "bert"),
                                      data={"mask_block": 6})),
    ("resnet50", changed(RESNET, train={"batch": 64})),
    ("unet", changed(UNET, train={"batch": 32})),
    ("two_tower", gpt(2, 256, 4, 128, 131072, 64, "two_tower")),
    ("encoder_decoder, 6 + 6 layers x 512", gpt(6, 512, 8, 256, 32768, 64, "encoder_decoder")),
    ("lstm, 2 layers x 1024", LSTM),
]
# Name, cluster; for transformers and for others the plan that an expert would begin with: tensor
# parallelism inside of fast machines and data parallelism between them (Megatron-LM), pipelines
# where devices differ or links slow (GPipe, PipeDream), data parallelism for images.
CLUSTERS = [
    ("laptop", "cpu:4", "dp=4", "dp=4"),
    ("8xA100", "8xa100-80g", "dp=8", "dp=8"),
    ("2x4xV100+2x8xP100", "2x4xv100+2x8xp100", "pp=2,dp=12,micro_batches=2", "dp=24"),
    ("slow network", "4x2xa100-80g;ib=10Gb", "pp=4,tp=2,micro_batches=8", "dp=8"),
    ("4x8xH100", "4x8xh100-sxm;ib=400Gb", "dp=4,tp=8", "dp=32"),
    ("8x8xA100", "8x8xa100-80g;ib=200Gb", "dp=8,tp=8", "dp=64"),
]
# Model, configuration, cluster's name, cluster, expert's plan.
PUBLISHED = [
    ("GPT-3 175B", gpt(96, 12288, 96, 2048, 51200, 1536), "1,024 A100", "128x8xa100-80g",
     "pp=16,dp=8,tp=8,micro_batches=192,recompute=full"),
    ("PanGu 200B", gpt(64, 16384, 128, 1024, 40000, 2048), "2,048 Ascend 910", RACKS,
     "pp=16,dp=16,tp=8,micro_batches=128,recompute=full"),
]


def rows():
    for model, config in MODELS:
        kind = config["model"]["kind"]
        for name, cluster, transformer, other in CLUSTERS:
            yield model, config, name, cluster, other if kind in ("resnet", "unet", "lstm") else transformer
    yield from PUBLISHED


def plan(program, file, cluster, *words):
    result = subprocess.run([program, "plan", file, "--cluster", cluster, "--no-cache", "--json", *words],
                            capture_output=True, text=True)
    return json.loads(result.stdout)


def terms(row):
    """Kernels, exchanges that no kernel hides, and waits of a rank in the mean."""
    parts = row["parts"]
    return {"kernels": parts["compute_seconds"],
            "exchanges": sum(parts["exposed_seconds"].values()), "waits": parts["idle_seconds"]}


def reason(expert, found):
    """Where the expert's plan takes longer, the largest difference first."""
    differences = {name: value - terms(found)[name] for name, value in terms(expert).items()}
    total = expert["step_seconds"] - found["step_seconds"]
    longer = sorted((name for name in differences if differences[name] > 0.1 * total),
                    key=lambda name: -differences[name])
    return ", ".join(longer) if total > 0.005 * found["step_seconds"] else "equal"


def seconds(value):
    return f"{value:.1f} s" if value >= 10 else f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.2f} s"


def row(program, folder, model, config, name, cluster, expert):
    file = config_file(folder, config)
    result = plan(program, file, cluster, "--compare", expert)
    if "error" in result:  # the model cannot have the expert's plan
        result = plan(program, file, cluster)
        by_hand = "cannot be had"
    if not result.get("name"):
        return f"| {model} | {name} | {expert} | | none fits | | |"
    found = next(each for each in result["alternatives"] if each["name"] == result["name"])
    compared = next((each for each in result["alternatives"] if each["source"] == "compared"), None)
    if compared is None:
        by_hand, shorter, why = "cannot be had", "", ""
    elif not compared["fits"]:
        by_hand, shorter = "does not fit", ""
        why = f"lacks {compared['missing_bytes'] / 2**30:.1f} GiB"
    else:
        by_hand = seconds(compared["step_seconds"])
        shorter = f"{100 * (1 - result['step_seconds'] / compared['step_seconds']):.0f}%"
        why = reason(compared, found)
    plan_found = result["name"].replace("|", "\\|")  # between different stages
    return (f"| {model} | {name} | {expert} | {by_hand} | {plan_found} | "
            f"{seconds(result['step_seconds'])} | {shorter} | {why} |")


def main():
    program, wanted = sys.argv[1], sys.argv[2:]
    print("| model | cluster | plan by hand | step | plan that is found | step | shorter by | by hand "
          "longer in |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for each in rows():
            if not wanted or any(text in f"{each[0]} {each[2]}" for text in wanted):
                print(row(program, folder, *each), flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\n{used.ru_utime + used.ru_stime:.0f} s of CPU time, at most "
          f"{used.ru_maxrss / 2**20:.1f} GiB")


if __name__ == "__main__":
    main()
