#!/usr/bin/env python3
"""Plans for other programs: what `tessera plan --target` writes is read by Megatron-LM, torchtitan and PyTorch themselves.

    targets_test.py PROGRAM [--only NAME] [--list] [--xml FILE]
"""
import dataclasses
import importlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from clients import environment  # noqa: E402

if __name__ == "__main__":
    environment.enter()

warnings.filterwarnings("ignore")
import torch  # noqa: E402

from support import cases  # noqa: E402

PROGRAM = ""
FEWER = ("--set", "model.layers=8")  # of llama3-8b
CLIENTS = pathlib.Path(__file__).resolve().parent.parent.parent / "clients"
LLAMA = str(pathlib.Path(__file__).resolve().parent.parent.parent / "configs" / "llama.toml")
# Arguments that are no field of a configuration of megatron-core: Megatron-LM, tag core_v0.16.1 (55ac7082517c), megatron/training/arguments.py;
# the sizes of batches are fields of TrainingConfig in megatron/training/training_config.py.
OF_ARGUMENTS_PY = {
    "--micro-batch-size", "--global-batch-size", "--seq-length", "--max-position-embeddings", "--num-virtual-stages-per-pipeline-rank",
    "--pipeline-model-parallel-layout", "--swiglu", "--untie-embeddings-and-output-weights", "--group-query-attention", "--use-distributed-optimizer",
    "--overlap-grad-reduce", "--overlap-param-gather", "--num-distributed-optimizer-instances",
}


def plan(target, folder, model, cluster, *more):
    result = subprocess.run([PROGRAM, "plan", model, "--cluster", cluster, "--target", target, "--json", "-o", folder, *more],
                            capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, f"{model} on {cluster}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return json.loads(result.stdout)["best"]


def flags_of(folder):
    """The flags of flags.txt as a shell reads them: name and value, or None."""
    words = shlex.split((pathlib.Path(folder) / "flags.txt").read_text().replace("\\\n", " "))
    flags = {}
    for word in words:
        if word.startswith("--"):
            flags[name := word] = None
        else:
            flags[name] = word
    return flags


def check_megatron(model, cluster, *more):
    from megatron.core.parallel_state import RankGenerator
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

    with tempfile.TemporaryDirectory() as folder:
        best = plan("megatron", folder, model, cluster, *more)
        flags = flags_of(folder)
        fields = {field.name: field for field in dataclasses.fields(TransformerConfig)}
        arguments = {"pipeline_dtype": torch.bfloat16, "params_dtype": torch.bfloat16}
        for name, value in flags.items():
            field = name.removeprefix("--").replace("-", "_")
            assert field in fields or name in OF_ARGUMENTS_PY, f"{name} is no argument of Megatron-LM"
            if field in fields and field != "pipeline_model_parallel_layout":
                is_list = field == "recompute_modules"
                arguments[field] = True if value is None else [value] if is_list else int(value) if value.isdigit() else value
        stages = best["pipeline"] * best["chunks"]
        if best["chunks"] > 1:
            arguments["virtual_pipeline_model_parallel_size"] = best["chunks"]
        layout = flags.get("--pipeline-model-parallel-layout")
        if layout:
            parsed = PipelineParallelLayerLayout.from_str(layout, best["pipeline"])
            parsed.validate_layer_layout(arguments["num_layers"], mtp_num_layers=None)
            counts = [[str(kind).lower().count("decoder") for kind in chunk].count(1) for rank in parsed.layout for chunk in rank]
            assert sorted(counts) == sorted(best["stage_layers"]), f"{layout}: {counts}, planned are {best['stage_layers']}"
        elif best["pipeline"] > 1:
            assert arguments["num_layers"] % stages == 0
        config = TransformerConfig(**arguments)
        assert config.tensor_model_parallel_size == best["tensor"]
        ranks = json.loads((pathlib.Path(folder) / "ranks.json").read_text())["ranks"]
        data = best["replicate"] * best["shard"]
        order = RankGenerator(tp=best["tensor"], ep=1, dp=data, pp=best["pipeline"], cp=best["context"], order="tp-cp-ep-dp-pp")
        for token, column in (("tp", 4), ("cp", 3), ("pp", 0)):
            groups = {}
            for rank, place in enumerate(ranks):
                groups.setdefault(tuple(place[:column] + place[column + 1:]), []).append(rank)
            assert sorted(groups.values()) == sorted(order.get_ranks(token)), f"groups of {token} differ"


def check_torchtitan(model, cluster, *more):
    from torchtitan.config.manager import ConfigManager

    with tempfile.TemporaryDirectory() as folder:
        best = plan("torchtitan", folder, model, cluster, *more)
        sys.path.insert(0, folder)
        try:
            sys.modules.pop("tessera_plan", None)
            module = importlib.import_module("tessera_plan")
            config = module.planned()
            words = shlex.split((pathlib.Path(folder) / "flags.txt").read_text().replace("\\\n", " "))
            by_flags = ConfigManager().parse_args(["--module", module.base.__module__, "--config", module.base.__name__, *words])
        finally:
            sys.path.remove(folder)
        for read in (config, by_flags):
            parallelism = read.parallelism
            assert parallelism.tensor_parallel_degree == best["tensor"]
            assert parallelism.pipeline_parallel_degree == best["pipeline"]
            assert parallelism.data_parallel_shard_degree == (best["shard"] if best["zero"] else 1)
            assert parallelism.data_parallel_replicate_degree == (best["replicate"] if best["zero"] else best["replicate"] * best["shard"])
            assert read.training.global_batch_size == best["global_batch"]
            kind = type(read.activation_checkpoint).__qualname__
            wanted = {"none": "NoneType", "selective": "SelectiveAC", "full": "FullAC"}[best["recompute"]]
            assert kind.startswith(wanted), f"{kind} for {best['recompute']}"
            if best["pipeline"] > 1:
                assert read.training.disable_cuda_graphs
        if best["pipeline"] > 1:
            names = [name for part in config.parallelism.module_fqns_per_model_part for name in part]
            layers = sum(best["stage_layers"])
            assert sorted(names) == sorted(["tok_embeddings", "norm", "lm_head", *(f"layers.{i}" for i in range(layers))])
        return best


def megatron_takes_pipelines_of_whole_layers():
    check_megatron("llama3-8b", "8xh100", "--batch", "16x4096", *FEWER)


def megatron_takes_a_layout_of_uneven_stages():
    # Nothing but a pipeline divides three rows of a model with five heads, and six layers are no multiple of four stages.
    check_megatron(LLAMA, "4xa100-40g", "--set", "model.heads=5", "model.kv_heads=5", "model.width=80", "model.layers=6", "train.batch=3")


def torchtitan_takes_a_module_and_flags():
    check_torchtitan("llama3-8b", "8xh100", "--batch", "16x4096", *FEWER)


def torchtitan_takes_stages():
    # Six rows are divided by two ranks at most, and five heads by none.
    best = check_torchtitan(LLAMA, "4xa100-40g", "--set", "model.heads=5", "model.kv_heads=5", "model.width=80", "model.layers=6", "train.batch=6")
    assert best["pipeline"] > 1


def torchtitan_takes_a_model_across_machines():
    check_torchtitan("llama3-8b", "2x8xh100;ib=100Gb", "--batch", "16x4096", *FEWER)


def train(rank, folder, sharded, results):
    """Five steps of a small Llama of transformers; the losses of the whole batch go to the file `results`."""
    import transformers
    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      intermediate_size=48, max_position_embeddings=16, pad_token_id=None, bos_token_id=1, eos_token_id=2)
    model = transformers.LlamaForCausalLM(config)
    whole = sum(parameter.numel() for parameter in model.parameters())
    ranks, batch, count = 1, 16, 1
    if sharded:
        sys.path.insert(0, folder)
        plan_module = importlib.import_module("tessera_fsdp")
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=4)
        ranks, count = 4, plan_module.MICRO_BATCHES
        assert plan_module.MICRO_BATCH * count * ranks == batch
        plan_module.parallelize(model, model.model.layers, device="cpu", param_dtype=torch.float32)
        local = sum(parameter.to_local().numel() for parameter in model.parameters())
        results.with_suffix(f".{rank}").write_text(json.dumps([local, whole]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.randint(0, 64, (5, batch, 16), generator=torch.Generator().manual_seed(1))
    losses = []
    for step in tokens:
        own = step.chunk(ranks)[rank] if sharded else step
        total = torch.zeros(())
        for part in own.chunk(count):
            loss = model(part, labels=part).loss / count
            loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        if sharded:
            torch.distributed.all_reduce(total)
        losses.append(float(total) / ranks)
    if rank == 0:
        results.write_text(json.dumps(losses))
    if sharded:
        torch.distributed.destroy_process_group()


LLAMA_OF_TRANSFORMERS = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 16, "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False}


def train_by_placements(rank, folder, file, results):
    """Five steps of the same model with DTensors placed by the file; without a file, the module alone."""
    import transformers
    transformers.utils.logging.set_verbosity_error()
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{key: value for key, value in LLAMA_OF_TRANSFORMERS.items() if key != "model_type"},
                                      pad_token_id=None, bos_token_id=1, eos_token_id=2, attn_implementation="eager")
    model = transformers.LlamaForCausalLM(config)
    whole = {name: parameter.numel() for name, parameter in model.named_parameters()}
    if file:
        sys.path.insert(0, str(CLIENTS))
        from tessera_dtensor import Placements
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store-{pathlib.Path(file).stem}", rank=rank, world_size=4)
        placements = Placements(file, device="cpu")
        placements.distribute(model)
        local = {name: [parameter.to_local().numel(), whole[name]] for name, parameter in model.named_parameters()}
        results.with_suffix(f".{rank}").write_text(json.dumps(local))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    tokens = torch.randint(0, 64, (5, 8, 16), generator=torch.Generator().manual_seed(1))
    losses = []
    for step in tokens:
        if file:
            with placements.active():
                placed = placements.place("tokens", step)
                loss = model(placed, labels=placed).loss
                loss.backward()
                optimizer.step()
            losses.append(float(loss.full_tensor()))
        else:
            loss = model(step, labels=step).loss
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        optimizer.zero_grad()
    if rank == 0:
        results.write_text(json.dumps(losses))
    if file:
        torch.distributed.destroy_process_group()


def dtensors_train_as_the_module_alone():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "config.json").write_text(json.dumps(LLAMA_OF_TRANSFORMERS))
        train_by_placements(0, name, None, folder / "alone")
        alone = json.loads((folder / "alone").read_text())
        for plan_text in ("tp=4", "dp=4,zero=3"):
            file = folder / f"{plan_text}.json"
            subprocess.run([PROGRAM, "explain", name, "--plan", plan_text, "--ranks", "4", "--set", "train.batch=8", "train.precision=f32",
                            "--dtensor", file], check=True, capture_output=True, timeout=100, stdin=subprocess.DEVNULL)
            torch.multiprocessing.spawn(train_by_placements, (name, str(file), folder / "placed"), 4)
            placed = json.loads((folder / "placed").read_text())
            for right, found in zip(alone, placed, strict=True):
                assert abs(found - right) <= 1e-5 * abs(right), f"{plan_text}: losses {placed}, alone {alone}"
            described = json.loads(file.read_text())
            assert bool(described["notes"]) == (plan_text == "tp=4"), f"{plan_text}: {described['notes']}"  # two heads of keys
            extents = described["meshes"][0]["shape"]
            for rank in range(4):
                for parameter, (local, whole) in json.loads((folder / f"placed.{rank}").read_text()).items():
                    parts = 1
                    for extent, placement in zip(extents, described["parameters"][parameter]["placements"], strict=True):
                        parts *= extent if placement.startswith("Shard") else 1
                    assert local * parts == whole, f"{plan_text}, rank {rank}: {local} of {whole} of {parameter}"


def fsdp_trains_as_the_module_alone():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        best = plan("fsdp", folder, LLAMA, "4xa100-40g", "--set", "train.batch=16",
                    "data.held_out=0", "--time-limit", "0.1")
        assert best["replicate"] * best["shard"] == 4
        train(0, name, False, folder / "alone")
        torch.multiprocessing.spawn(train, (name, True, folder / "sharded"), 4)
        alone, sharded = (json.loads((folder / which).read_text()) for which in ("alone", "sharded"))
        for right, found in zip(alone, sharded, strict=True):
            assert abs(found - right) <= 1e-5 * abs(right), f"losses {sharded}, alone {alone}"
        for rank in range(4):
            local, whole = json.loads((folder / f"sharded.{rank}").read_text())
            shard = best["shard"] if best["zero"] else 1
            assert local * shard == whole, f"rank {rank} has {local} of {whole} parameters, planned is one part of {shard}"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    options = cases.parser(__doc__, "program").parse_args()
    PROGRAM = options.program
    functions = (megatron_takes_pipelines_of_whole_layers, megatron_takes_a_layout_of_uneven_stages, torchtitan_takes_a_module_and_flags, torchtitan_takes_stages,
                 torchtitan_takes_a_model_across_machines, fsdp_trains_as_the_module_alone, dtensors_train_as_the_module_alone)
    sys.exit(cases.run([cases.Named(function.__name__, function) for function in functions], options))
