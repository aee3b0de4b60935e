#!/usr/bin/env python3
"""Published runs given to `tessera plan --current` as their own programs are launched: what is read, predicted and found.

usage: published_settings.py PROGRAM MEASURED [--only TEXT]

MEASURED is the folder of published_runs.py. Prints for each run whether the degrees that were read are those of the table, the predicted
step beside the measured one, and the best setting of the target as a part of the present one, with the seconds of this machine.
"""
import argparse
import json
import subprocess
import time

from published_runs import GPUS, LLAMA, cluster, rows_of


def sizes(**keys):
    return [f"model.{key}={value}" for key, value in keys.items()]


def megatron(folder):
    for row in rows_of(folder, "megatron_sc21_table1"):
        gpus, pp = int(row["gpus"]), int(row["pp"])
        if gpus > 512:
            continue
        line = (f"torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers {row['layers']} --hidden-size {row['hidden']} "
                f"--num-attention-heads {row['heads']} --seq-length {row['seq']} --tensor-model-parallel-size {row['tp']} "
                f"--pipeline-model-parallel-size {pp} --micro-batch-size {row['micro_batch']} --global-batch-size {row['global_batch']} "
                f"--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --fp16")
        tp = int(row["tp"])
        vocabulary = -(-int(row["vocab"]) // (128 * tp)) * 128 * tp
        yield dict(name=f"sc21 {row['params_B']}B on {gpus}", target="megatron", config="configs/gpt.toml", line=line,
                   cluster=cluster("a100-80g", gpus, 8, "ib=8x200Gb"), runtime="megatron", measured=float(row["iter_time_s_derived"]),
                   degrees=dict(tensor=tp, pipeline=pp, micro_batch=int(row["micro_batch"])), data=int(row["dp"]),
                   sets=["train.precision=f16", "model.dropout=0.1", *sizes(layers=row["layers"], width=row["hidden"], heads=row["heads"],
                                                                           context=row["seq"], vocabulary=vocabulary)])


def mosaic(folder):
    wanted = {("7b", "2048", "128"), ("13b", "2048", "32"), ("30b", "2048", "8")}
    for row in rows_of(folder, "mosaic_mpt_fsdp_benchmarks"):
        key = (row["model"], row["seq"], row["gpus"])
        if key not in wanted or row["gpu"] != "h100_80gb" or row["precision"] != "amp_bf16":
            continue
        wanted.remove(key)
        device, network = GPUS[row["gpu"]]
        gpus, full = int(row["gpus"]), row["sharding"] == "FULL_SHARD"
        line = (f"--replicate 1 --shard {gpus} --reshard-after-forward {'true' if full else 'false'} --micro-batch {row['micro_batch']} "
                f"--micro-batches {row['grad_accum']} --recompute {'full' if row['act_checkpoint'] == 'True' else 'none'}")
        yield dict(name=f"mpt {row['model']} on {gpus}", target="fsdp", config="configs/gpt.toml", line=line,
                   cluster=cluster(device, gpus, 8, network), runtime="torch-eager", measured=float(row["iter_time_s_derived"]),
                   degrees=dict(shard=gpus, zero=3 if full else 2, micro_batch=int(row["micro_batch"])), data=gpus,
                   sets=["train.precision=bf16", f"train.batch={row['global_batch']}",
                         *sizes(layers=row["layers"], width=row["hidden"], heads=row["heads"], context=row["seq"], vocabulary=50368)])


def torchtitan(folder):
    for row in rows_of(folder, "torchtitan_benchmarks"):
        size, gpus, tp = row["model"].split("-")[-1], int(row["gpus"]), int(row["tp"])
        if row["float8"] not in ("0", "bf16") or row["cp"] != "1" or row["async_tp"] == "1":
            continue
        batch = int(row["local_batch"]) * int(row["fsdp"])
        mode = "full" if row["act_ckpt"] == "full" else "selective"
        line = (f"--module llama3 --config llama3_{size.lower()} --parallelism.data_parallel_shard_degree {row['fsdp']} "
                f"--parallelism.tensor_parallel_degree {tp} --training.local_batch_size {row['local_batch']} "
                f"--training.seq_len {row['seq']} activation-checkpoint:{mode}")
        yield dict(name=f"torchtitan {size} on {gpus}{' compiled' if row['compile'] == '1' else ''}", target="torchtitan", config="configs/llama.toml",
                   line=line, cluster=cluster("h100-96g", gpus, 8, "ib=8x400Gb"), runtime="torch-compile" if row["compile"] == "1" else "torch-eager",
                   measured=batch * int(row["seq"]) / (float(row["tokens_per_s_gpu"]) * gpus),
                   degrees=dict(shard=int(row["fsdp"]), tensor=tp, micro_batch=int(row["local_batch"])), data=int(row["fsdp"]),
                   sets=["train.precision=bf16", f"train.batch={batch}", *sizes(context=row["seq"], vocabulary=128256, **LLAMA[size])])


def run(program, case):
    start = time.monotonic()
    result = subprocess.run([program, "plan", case["config"], "--cluster", case["cluster"], "--runtime", case["runtime"], "--target", case["target"],
                             "--current", case["line"], "--json", "--set", "data.held_out=0.0", *case["sets"]], capture_output=True, text=True)
    seconds = time.monotonic() - start
    try:
        document = json.loads(result.stdout)
    except ValueError:
        document = {}
    if not document.get("current"):
        print(f"{case['name']}: exit code {result.returncode}: {(result.stderr or result.stdout).strip().splitlines()[-3:]}, {seconds:.0f} s", flush=True)
        return
    current, best = document["current"], document["best"]
    read = {key: current[key] for key in case["degrees"]}
    same = read == case["degrees"] and current["replicate"] * current["shard"] == case["data"]
    error = current["step_seconds"] / case["measured"] - 1
    found = f"best {best['step_seconds'] / current['step_seconds']:.2f} of it ({best['preset']})" if best else "nothing fits"
    print(f"{case['name']}: degrees {'as published' if same else f'differ: {read}'}, {current['step_seconds']:.2f} s predicted, "
          f"{case['measured']:.2f} s measured ({100 * error:+.0f}%), {'fits' if current['fits'] else 'does not fit'}, {found}, {seconds:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("measured")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for cases in (megatron, mosaic, torchtitan):
        for case in cases(options.measured):
            if options.only in case["name"]:
                run(options.program, case)


if __name__ == "__main__":
    main()
