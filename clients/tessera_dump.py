"""A step of a training in PyTorch as files for `tessera verify MODEL --dump FOLDER`. Call on every rank:

    dump = StepDump(folder, model, tokens, targets, loss_dtype="f32")
    loss.backward();  dump.after_backward(loss)
    optimizer.step(); dump.after_step()

tokens, targets: the whole batch, i64[rows, tokens]; a target is the next token. loss: the mean over the whole batch.
"""
import json
import pathlib

import torch
from safetensors.torch import save_file


class StepDump:
    def __init__(self, folder, model, tokens, targets, **settings):
        self.rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        self.folder, self.model = pathlib.Path(folder), model
        (self.folder / f"rank-{self.rank}").mkdir(parents=True, exist_ok=True)
        self.write("weights", lambda parameter: parameter)
        shards = {name: p for name, p in model.named_parameters() if hasattr(p, "placements")}
        ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        mesh = list(next(iter(shards.values())).device_mesh.shape) if shards else [ranks]
        self.facts = {"mesh": mesh, "placements": {name: [str(x) for x in map(repr, p.placements)] for name, p in shards.items()}, **settings}
        if self.rank == 0:
            save_file({"tokens": tokens.cpu().contiguous(), "targets": targets.cpu().contiguous()}, self.folder / "inputs.safetensors")

    def write(self, name, tensor_of):
        tensors = {key: tensor_of(parameter) for key, parameter in self.model.named_parameters()}
        local = {key: (t.to_local() if hasattr(t, "to_local") else t).detach().cpu().clone() for key, t in tensors.items() if t is not None}
        save_file(local, self.folder / f"rank-{self.rank}" / f"{name}.safetensors")

    def after_backward(self, loss):
        self.write("gradients", lambda parameter: parameter.grad)
        if self.rank == 0:
            (self.folder / "dump.json").write_text(json.dumps({"loss": float(loss), **self.facts}))

    def after_step(self):
        self.write("updated", lambda parameter: parameter)
