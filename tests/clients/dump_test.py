#!/usr/bin/env python3
"""Steps of PyTorch, dumped by clients/tessera_dump.py and compared by `tessera verify --dump`: right ones pass, planted mistakes are named.

    dump_test.py PROGRAM [--only NAME] [--list] [--xml FILE]
"""
import functools
import json
import pathlib
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
import transformers  # noqa: E402

from support import cases  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "clients"))
from tessera_dump import StepDump  # noqa: E402

PROGRAM = ""
ROWS, TOKENS, VOCABULARY, RANKS = 4, 12, 48, 2
RATE = 0.01
NORM = "model.layers.0.input_layernorm.weight"


def small_llama(dtype):
    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      intermediate_size=40, max_position_embeddings=TOKENS, pad_token_id=None, bos_token_id=1, eos_token_id=2)
    return transformers.LlamaForCausalLM(config).to(dtype)


def half_norms(model, rank):
    """Each rank has the gradients of the weights of norms of its half of the tokens, as under sequence parallelism."""
    def forward(self, hidden):
        normed = hidden.float() * torch.rsqrt(hidden.float().pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        halves = list(normed.to(hidden.dtype).chunk(RANKS, dim=1))
        return torch.cat([half * (self.weight if i == rank else self.weight.detach()) for i, half in enumerate(halves)], dim=1)
    for module in model.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            module.forward = forward.__get__(module)
    return [module.weight for module in model.modules() if type(module).__name__ == "LlamaRMSNorm"]


def step(rank, folder, kind, dtype, mistake):
    """A step on each of RANKS ranks. kind: dp (rows divided, gradients averaged), sp (norms of half of the tokens), fsdp."""
    model = small_llama(dtype)
    if rank == 0:
        model.config.save_pretrained(folder / "model")
    norms = half_norms(model, rank) if kind == "sp" else []
    if kind == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for layer in model.model.layers:
            fully_shard(layer, mesh=torch.distributed.init_device_mesh("cpu", (RANKS,)))
        fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (RANKS,)))
    data = torch.randint(0, VOCABULARY, (ROWS, TOKENS + 1), generator=torch.Generator().manual_seed(1))
    tokens, targets = data[:, :-1], data[:, 1:]
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    precision = "bf16" if dtype == torch.bfloat16 else "f32"
    dump = StepDump(folder / "dump", model, tokens, targets,
                    set=[f"train.precision={precision}", "optimizer.kind=sgd", f"optimizer.learning_rate={RATE}", "optimizer.schedule=constant",
                         "optimizer.clip_norm=0.0", "optimizer.momentum=0.0", "optimizer.weight_decay=0.0"])
    own = [slice(None)] * 2 if kind == "sp" else [slice(rank * ROWS // RANKS, (rank + 1) * ROWS // RANKS)] * 2
    logits = model(tokens[own[0]]).logits
    loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets[own[1]].flatten())
    loss.backward()
    with torch.no_grad():
        mean = loss.detach().clone()
        if kind != "sp":
            torch.distributed.all_reduce(mean)
            mean /= RANKS
        if kind == "dp":
            for parameter in model.parameters():
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad /= 1 if mistake else RANKS
        for weight in norms if not mistake else norms[1:]:
            torch.distributed.all_reduce(weight.grad)
    dump.after_backward(mean)
    optimizer.step()
    dump.after_step()


STEPS = [(kind, dtype, False) for kind in ("dp", "fsdp") for dtype in ("float32", "bfloat16")] + [
    ("sp", "float32", False), ("sp", "float32", True), ("dp", "float32", True), ("dp", "bfloat16", True)]


def folder_of(folder, kind, dtype, mistake):
    return pathlib.Path(folder) / f"{kind}_{dtype}_{'wrong' if mistake else 'right'}"


def all_steps(rank, folder):
    """In the same processes: most of the time they import."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    for kind, dtype, mistake in STEPS:
        step(rank, folder_of(folder, kind, dtype, mistake), kind, getattr(torch, dtype), mistake)
        torch.distributed.barrier()
    torch.distributed.destroy_process_group()


@functools.cache
def dumps():
    folder = tempfile.TemporaryDirectory()
    torch.multiprocessing.spawn(all_steps, (folder.name,), RANKS)
    return folder


def verify(kind, dtype="float32", mistake=False):
    folder = folder_of(dumps().name, kind, dtype, mistake)
    result = subprocess.run([PROGRAM, "verify", folder / "model", "--dump", folder / "dump", "--json"], capture_output=True, text=True,
                            timeout=300, stdin=subprocess.DEVNULL)
    assert result.returncode == (6 if mistake else 0), f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    report = json.loads(result.stdout)
    assert report["ok"] != mistake
    assert report["tensors"] > 40 or mistake, f"{report['tensors']} tensors were compared"
    return report["first_difference"]


def right_steps_pass_in_f32():
    for kind in ("dp", "sp", "fsdp"):
        verify(kind)


def right_steps_pass_in_bf16():
    for kind in ("dp", "fsdp"):
        verify(kind, "bfloat16")


def a_gradient_that_is_scaled_by_the_ranks_is_named():
    for dtype in ("float32", "bfloat16"):
        difference = verify("dp", dtype, mistake=True)
        assert difference["what"].startswith("the gradient of"), difference
        ratio = difference["theirs"] / difference["reference"]
        assert abs(ratio - RANKS) < 0.1, difference


def a_norm_whose_gradient_is_not_reduced_is_named():
    difference = verify("sp", mistake=True)
    assert difference["what"].startswith("the gradient of") and "norm1" in difference["variable"] and ".0." in difference["variable"], difference


if __name__ == "__main__":
    options = cases.parser(__doc__, "program").parse_args()
    PROGRAM = options.program
    functions = (right_steps_pass_in_f32, right_steps_pass_in_bf16, a_gradient_that_is_scaled_by_the_ranks_is_named,
                 a_norm_whose_gradient_is_not_reduced_is_named)
    sys.exit(cases.run([cases.Named(function.__name__, function) for function in functions], options))
