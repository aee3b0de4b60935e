#!/usr/bin/env python3
"""Models of Hugging Face: the logits are those of transformers, and exported weights are read back.

    hugging_face_test.py PROGRAM [--only NAME] [--list] [--xml FILE]

Each case writes a small model with random weights, trains it for a step with the rate 0 under a plan that divides its
weights, and compares the predictions of the checkpoint.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from clients import environment  # noqa: E402

if __name__ == "__main__":
    environment.enter()

import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors import torch as tensor_files  # noqa: E402

from support import cases  # noqa: E402

PROGRAM = ""
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
TOKENS, VOCABULARY, ROWS, CONTEXT = 40, 40, 4, 32
TINY = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
        "max_position_embeddings": CONTEXT, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
GROUPED = {**TINY, "num_key_value_heads": 2}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT, "bos_token_id": 0, "eos_token_id": 1}
OPT = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 24,
       "max_position_embeddings": CONTEXT, "word_embed_proj_dim": 16, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 1}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}


def rope(kind, **more):
    return {"rope_type": kind, "rope_theta": 10000.0, **more}


MODELS = {
    "gpt2": lambda t: t.GPT2Config(**GPT2),
    "gpt2_of_another_inner_size": lambda t: t.GPT2Config(**GPT2, n_inner=40, activation_function="relu"),
    "llama": lambda t: t.LlamaConfig(**GROUPED),
    "llama_with_biases_and_own_heads": lambda t: t.LlamaConfig(**GROUPED, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=10),
    "llama3_scaled": lambda t: t.LlamaConfig(**GROUPED, rope_parameters=LLAMA3),
    "llama_linear_scaled": lambda t: t.LlamaConfig(**GROUPED, rope_parameters=rope("linear", factor=4.0)),
    "mistral": lambda t: t.MistralConfig(**GROUPED, sliding_window=None),
    "mistral_with_a_window": lambda t: t.MistralConfig(**GROUPED, sliding_window=5),
    "qwen2": lambda t: t.Qwen2Config(**GROUPED),
    "qwen3": lambda t: t.Qwen3Config(**GROUPED, head_dim=10),
    "gemma": lambda t: t.GemmaConfig(**GROUPED, head_dim=10),
    "phi3": lambda t: t.Phi3Config(**GROUPED),
    "phi3_partial": lambda t: t.Phi3Config(**GROUPED, rope_parameters=rope("default", partial_rotary_factor=0.5)),
    "gpt_neox": lambda t: t.GPTNeoXConfig(**TINY),
    "gpt_neox_in_a_row": lambda t: t.GPTNeoXConfig(**TINY, use_parallel_residual=False, tie_word_embeddings=True),
    "opt": lambda t: t.OPTConfig(**OPT),
    "bert": lambda t: t.BertConfig(**TINY),
}


def run(*arguments):
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, f"{arguments}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def random_model(config):
    torch.manual_seed(0)
    kind = transformers.AutoModelForMaskedLM if config.model_type == "bert" else transformers.AutoModelForCausalLM
    model = kind.from_config(config).eval().float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.2 * torch.randn_like(parameter) + (0.5 if parameter.dim() == 1 else 0))
    return kind, model


def logits(model, tokens):
    with torch.no_grad():
        return model(torch.tensor(tokens.astype(numpy.int64))).logits.numpy()


def settings(tokens, vocabulary, is_masked):
    return ["--set", "train.precision=f32", "train.batch=1", "train.steps=1", "optimizer.learning_rate=0.0", "optimizer.weight_decay=0.0",
            "data.kind=bin", "data.bits=16", f"data.path={tokens}", f"data.vocabulary={vocabulary}", "data.held_out=0",
            *(["data.mask_block=4"] if is_masked else [])]


def compare(config, folder, sharded=False):
    kind, model = random_model(config)
    given = folder / "given"
    model.save_pretrained(given, **({"max_shard_size": "8KB"} if sharded else {}))
    is_masked = config.model_type == "bert"
    vocabulary = VOCABULARY - 1 if is_masked else VOCABULARY  # the mask is a token more
    tokens = numpy.random.default_rng(0).integers(3, vocabulary, (ROWS, CONTEXT)).astype(numpy.int32)
    tokens.astype(numpy.uint16).tofile(folder / "tokens.bin")
    numpy.save(folder / "tokens.npy", tokens)
    run("train", given, "--base", given, "--plan", "dp=1,tp=2", "-o", folder / "run", *settings(folder / "tokens.bin", vocabulary, is_masked))
    run("predict", folder / "run", "--data", folder / "tokens.npy", "-o", folder / "logits.npy")
    right = logits(model, tokens)
    error = numpy.abs(numpy.load(folder / "logits.npy") - right).max() / numpy.abs(right).max()
    assert error < 1e-5, f"logits differ by {error:.2g} of the largest one"
    run("export", folder / "run", "--like", given, "-o", folder / "exported")
    again = logits(kind.from_pretrained(folder / "exported").eval(), tokens)
    assert numpy.array_equal(again, right), "the exported model has other logits"
    return given


def case(config):
    def body():
        with tempfile.TemporaryDirectory() as folder:
            compare(config(transformers), pathlib.Path(folder))
    return body


def of_several_files():
    with tempfile.TemporaryDirectory() as folder:
        given = compare(MODELS["llama"](transformers), pathlib.Path(folder), sharded=True)
        assert len(list(given.glob("*.safetensors"))) > 1


def missing_and_unexpected_tensors_are_listed():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, model = random_model(MODELS["llama"](transformers))
        model.save_pretrained(folder)
        numpy.zeros(200, numpy.uint16).tofile(folder / "tokens.bin")
        tensors = tensor_files.load_file(folder / "model.safetensors")
        tensors["model.extra.weight"] = torch.zeros(3)
        tensor_files.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        arguments = ["train", folder, "--base", folder, *settings(folder / "tokens.bin", VOCABULARY, False)]
        assert "model.extra.weight" in run(*arguments).stderr
        del tensors["model.norm.weight"]
        tensors["model.embed_tokens.weight"] = torch.zeros(3, 3)
        tensor_files.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        assert result.returncode == 65, result.stderr
        assert "lacks model.norm.weight" in result.stderr and "model.embed_tokens.weight [3,3] in place of [40,32]" in result.stderr, result.stderr


def known_models_have_the_parameters_of_transformers():
    models = pathlib.Path(__file__).resolve().parent.parent.parent / "configs" / "models"
    for path in sorted(models.glob("*.json")):
        name = path.stem
        config = transformers.AutoConfig.from_pretrained(path)
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
        right = sum(parameter.numel() for parameter in model.parameters())
        with tempfile.TemporaryDirectory() as folder:
            result = json.loads(run("export", name, "-o", f"{folder}/model.graph", "--json").stdout)
        assert result["parameters"] == right, f"{name}: {result['parameters']} parameters, {right} in transformers"


if __name__ == "__main__":
    options = cases.parser(__doc__, "program").parse_args()
    PROGRAM = options.program
    all_cases = [cases.Named(name, case(config)) for name, config in MODELS.items()]
    for function in (of_several_files, missing_and_unexpected_tensors_are_listed, known_models_have_the_parameters_of_transformers):
        all_cases.append(cases.Named(function.__name__, function))
    sys.exit(cases.run(all_cases, options))
