#!/usr/bin/env python3
"""Writes the measured runs of published systems as tables for tessera replay and calibrate.

usage: published_runs.py MEASURED OUT

MEASURED is a folder with the tables of the publications (one CSV each, with their sources in
comments), OUT the folder for the tables that are written. A table that is not there is left out.
What a publication does not say and a replay needs is chosen here, in ASSUMED and beside its use.
"""

import csv
import os
import sys

COLUMNS = ["name", "group", "kind", "layers", "width", "heads", "kv_heads", "ffn", "context",
           "vocabulary", "dropout", "tied", "batch", "micro_batch", "micro_batches", "precision", "gradient_precision",
           "pp", "dp", "fsdp", "tp", "zero", "schedule", "chunks", "stage_layers", "recompute",
           "sequence_parallel", "cluster", "runtime", "step_s", "memory_gib", "memory_gb", "skip"]

ASSUMED = """\
vtrain: vocabulary padded to 128 x tp, as Megatron does; embeddings tied where pp is 1; 8 ports of 100 Gb/s
zero bubble: 8 ports of 200 Gb/s; interleaved stages of even work
mosaic: GPT blocks with biases stand for those of MPT; H100 machines have 8 ports of 400 Gb/s
sailor: no activation is computed again; 4 ports of 200 Gb/s
torchtitan: 'selective' is ours: all but products and attention is computed again
"""


def rows_of(folder, name):
    path = os.path.join(folder, name + ".csv")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def padded(vocabulary, tp):
    step = 128 * int(tp)
    return -(-vocabulary // step) * step


def cluster(device, devices, machine, network):
    if devices <= machine:
        return f"{devices}x{device}"
    return f"{devices // machine}x{machine}x{device};{network}"


def megatron(row, **others):
    """What Megatron-LM's tables have in common."""
    run = dict(kind="gpt", layers=row["layers"], width=row["hidden"], heads=row["heads"],
               context=row.get("seq", 2048), dropout=0.1, precision="f16", gradient_precision="f16",
               tp=row["tp"],
               dp=row["dp"], pp=row["pp"], batch=row["global_batch"],
               micro_batch=row["micro_batch"], recompute=row.get("recompute", "full"),
               runtime="megatron", tied="true" if int(row["pp"]) == 1 else "false")
    run.update(others)
    chunks = int(row.get("vp_chunks") or 1)
    if int(row["pp"]) > 1:
        layers, stages = int(row["layers"]), int(row["pp"]) * chunks
        run["stage_layers"] = "equal" if layers % stages == 0 else ""
        if chunks > 1:
            run.update(schedule="interleaved", chunks=chunks)
    return run


def vtrain(folder):
    for table in ("single", "multi"):
        for row in rows_of(folder, f"vtrain_ground_truth_{table}"):
            yield f"vtrain_{table}", megatron(
                row, name=f"{row['gpus']}g t{row['tp']} d{row['dp']} p{row['pp']} "
                          f"m{row['micro_batch']} b{row['global_batch']} h{row['hidden']} "
                          f"l{row['layers']}",
                vocabulary=padded(50257, row["tp"]),
                cluster=cluster("a100-80g", int(row["gpus"]), 8, "ib=8x100Gb"),
                step_s=float(row["iter_time_ms"]) / 1e3)


SCHEDULES = {"1F1B": dict(schedule="1f1b"), "ZB-1p": dict(schedule="zb-h1"),
             "ZB-2p": dict(schedule="zb-h2"), "1F1B-I": dict(schedule="interleaved")}


def zero_bubble(folder):
    for row in rows_of(folder, "zero_bubble_table4_throughput"):
        pp, layers = int(row["pp"]), int(row["layers"])
        each = (layers + 2) // pp
        batch = int(row["micro_batch"]) * int(row["num_microbatches"])
        run = dict(name=f"{row['model']} m{row['num_microbatches']} {row['schedule']}",
                   kind="gpt", layers=layers, width=row["hidden"], heads=row["heads"],
                   context=row["seq"], vocabulary=50304, dropout=0.1, tied="false", batch=batch,
                   micro_batch=row["micro_batch"], precision="f16", pp=pp,
                   cluster=cluster("a100-80g", pp, 8, "roce=8x200Gb"), runtime="megatron",
                   step_s=batch / (float(row["samples_per_gpu_s"]) * pp),
                   memory_gb=row["mem_GB"], **SCHEDULES[row["schedule"]])
        if row["schedule"] == "1F1B-I":
            run["chunks"] = each
        else:
            run["stage_layers"] = "+".join(
                str(each - (stage in (0, pp - 1))) for stage in range(pp))
        yield "zero_bubble", run


GPUS = {"h100_80gb": ("h100-sxm", "ib=8x400Gb"), "a100_80gb": ("a100-80g", "roce=8x200Gb"),
        "a100_40gb": ("a100-40g", "roce=8x200Gb")}


def mosaic(folder):
    for row in rows_of(folder, "mosaic_mpt_fsdp_benchmarks"):
        device, network = GPUS[row["gpu"]]
        gpus = int(row["gpus"])
        skip = "fp8" if "fp8" in row["precision"] else ""
        if row["act_cpu_offload"] == "True":
            skip = "activations on the host"
        yield "mosaic_" + row["gpu"].split("_")[0], dict(
            name=f"{row['gpu']} {row['model']} s{row['seq']} {gpus}g m{row['micro_batch']}",
            kind="gpt", layers=row["layers"], width=row["hidden"], heads=row["heads"],
            context=row["seq"], vocabulary=50368, dropout=0, tied="true",
            batch=row["global_batch"], micro_batch=row["micro_batch"], precision="bf16",
            fsdp=gpus, zero=3 if row["sharding"] == "FULL_SHARD" else 2,
            recompute="full" if row["act_checkpoint"] == "True" else "",
            cluster=cluster(device, gpus, 8, network), runtime="torch-eager",
            step_s=row["iter_time_s_derived"], skip=skip)


def sc21(folder):
    for row in rows_of(folder, "megatron_sc21_table1"):
        yield "sc21_table1", megatron(
            row, name=f"{row['params_B']}B", vocabulary=row["vocab"],
            cluster=cluster("a100-80g", int(row["gpus"]), 8, "ib=8x200Gb"),
            step_s=row["iter_time_s_derived"])


def seqpar(folder):
    for row in rows_of(folder, "megatron_seqpar_table5"):
        yield "seqpar_table5", megatron(
            row, name=f"{row['model']} {row['recompute']}", vocabulary=row["vocab"],
            cluster=cluster("a100-80g", int(row["gpus"]), 8, "ib=8x200Gb"),
            sequence_parallel="true" if row["sequence_parallel"] == "on" else "",
            step_s=row["iter_time_s"])


def dlperf(folder):
    for row in rows_of(folder, "dlperf_gpt_v100_16gb"):
        vocabulary = 50688 if row["framework"] == "OneFlow" else 51200
        gpus = int(row["nodes"]) * int(row["gpus_per_node"])
        yield "dlperf_" + row["framework"].split("-")[0].lower(), megatron(
            row, name=f"{row['case']} {row['framework']}", context=2048, vocabulary=vocabulary,
            recompute="full", cluster=cluster("v100-16g", gpus, 8, "ib=1x100Gb"),
            step_s=float(row["iter_ms"]) / 1e3,
            memory_gib=float(row["mem_MiB"]) / 1024 if row["mem_MiB"] else "")


SAILOR = {"OPT-350": dict(layers=24, width=1024, heads=16),
          "GPT-NEO": dict(layers=32, width=2560, heads=20)}


def sailor(folder):
    for row in rows_of(folder, "sailor_validation_hetero_and_homo"):
        if row["cluster"] != "clariden" or not row["measured_s"]:
            continue
        stages = [int(part) for part in row["layers_per_stage"].strip("[]").split(",")]
        stages[0] -= 1
        stages[-1] -= 1
        yield "gh200", dict(
            name=row["model"] + " " + row["plan"].split("plan_config_")[-1][:-5], kind="gpt",
            context=2048, vocabulary=padded(50257, row["tp"]), dropout=0.1,
            tied="true" if len(stages) == 1 else "false", batch=row["global_batch"],
            micro_batch=row["micro_batch"], precision="f16", pp=row["pp"], dp=row["dp"],
            tp=row["tp"], stage_layers="+".join(map(str, stages)) if len(stages) > 1 else "",
            cluster=cluster("gh200", int(row["gpus"]), 4, "slingshot=4x200Gb"),
            runtime="megatron", step_s=row["measured_s"], memory_gb=row["measured_mem_GB"],
            **SAILOR[row["model"]])


LLAMA = {"8B": dict(layers=32, width=4096, heads=32, kv_heads=8, ffn=14336),
         "70B": dict(layers=80, width=8192, heads=64, kv_heads=8, ffn=28672),
         "405B": dict(layers=126, width=16384, heads=128, kv_heads=8, ffn=53248)}


def torchtitan(folder):
    for row in rows_of(folder, "torchtitan_benchmarks"):
        size = row["model"].split("-")[-1]
        gpus, fsdp = int(row["gpus"]), int(row["fsdp"])
        skip = ""
        if row["float8"] not in ("0", "bf16"):
            skip = "float8"
        elif int(row["cp"]) > 1:
            skip = "context parallelism"
        elif row["async_tp"] == "1":
            skip = "asynchronous tensor parallelism"
        batch = int(row["local_batch"]) * fsdp
        device = "h200" if row["hardware"].startswith("H200") else "h100-96g"
        tokens = float(row["tokens_per_s_gpu"])
        yield "torchtitan", dict(
            name=f"{size} {gpus}g fsdp{fsdp} tp{row['tp']} "
                 + ("compile" if row["compile"] == "1" else "eager"),
            kind="llama", context=row["seq"], vocabulary=128256, dropout=0, batch=batch,
            precision="bf16", fsdp=fsdp, tp=row["tp"], pp=row["pp"], zero=3,
            recompute="full" if row["act_ckpt"] == "full" else "selective",
            # its tensor parallelism divides the norms over the sequence, too
            sequence_parallel="true" if int(row["tp"]) > 1 else "",
            cluster=cluster(device, gpus, 8, "ib=8x400Gb"),
            runtime="torch-compile" if row["compile"] == "1" else "torch-eager",
            step_s=batch * int(row["seq"]) / (tokens * gpus), memory_gib=row["mem_gib"],
            skip=skip, **LLAMA[size])


def main():
    folder, out = sys.argv[1:3]
    os.makedirs(out, exist_ok=True)
    tables = {}
    for source in (vtrain, zero_bubble, mosaic, sc21, seqpar, dlperf, sailor, torchtitan):
        for table, run in source(folder):
            tables.setdefault(table, []).append(run)
    for table, runs in tables.items():
        with open(os.path.join(out, table + ".csv"), "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            for run in runs:
                writer.writerow(dict(run, group=table))
        print(f"{table}: {len(runs)} runs")
    print(ASSUMED, end="")


if __name__ == "__main__":
    main()
