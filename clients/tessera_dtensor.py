"""The placements that `tessera explain MODEL --plan PLAN --dtensor FILE` wrote, for a module of PyTorch. On every rank:

    placements = Placements(FILE, device="cuda")
    placements.distribute(module)                          # its parameters become DTensors, its buffers stay copies
    tokens = placements.place("tokens", tokens)            # the whole batch, as the plan divides it
    with placements.active():
        loss = module(tokens, labels=tokens).loss          # operators on DTensors choose their own placements
        loss.backward()

A plan of one stage; `constrain` gives an activation the placement that the plan has for it. Attention has to be made of
operators for which DTensor has rules: attn_implementation="eager" on CPUs. It has none for an embedding that two axes divide.
"""
import json
import pathlib
import warnings

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication


class Placements:
    def __init__(self, path, device="cuda"):
        self.plan = json.loads(pathlib.Path(path).read_text())
        if self.plan["format"] != "tessera-dtensor" or self.plan["version"] != 1:
            raise ValueError(f"{path} is no file of tessera explain --dtensor, version 1")
        if len(self.plan["meshes"]) != 1:
            raise ValueError(f"{path} has {len(self.plan['meshes'])} stages: a plan of one stage is needed")
        for note in self.plan["notes"]:
            warnings.warn(note, stacklevel=2)
        mesh = self.plan["meshes"][0]
        self.mesh = DeviceMesh(device, torch.tensor(mesh["ranks"]).reshape(mesh["shape"]), mesh_dim_names=tuple(mesh["axes"]))

    def of(self, entry):
        return [Replicate() if text == "Replicate()" else Shard(int(text[6:-1])) for text in entry["placements"]]

    def distribute(self, module):
        """Every parameter of the module becomes a DTensor; one that the plan does not have is refused, tied ones stay tied."""
        made = {}
        for prefix, part in module.named_modules():
            for name, parameter in list(part.named_parameters(recurse=False)):
                full = f"{prefix}.{name}" if prefix else name
                if parameter not in made:
                    entry = self.plan["parameters"].get(full)
                    if entry is None or list(parameter.shape) != entry["shape"]:
                        raise ValueError(f"the plan has {'no ' if entry is None else 'another shape of '}parameter {full}")
                    local = distribute_tensor(parameter.data, self.mesh, self.of(entry))
                    made[parameter] = torch.nn.Parameter(local, requires_grad=parameter.requires_grad)
                part.register_parameter(name, made[parameter])
            if isinstance(part, torch.nn.Embedding):  # the sum over a divided vocabulary can be made once only
                part.register_forward_hook(lambda module, inputs, rows: self.summed(rows))

    def summed(self, tensor):
        """A DTensor without pending sums, and none in its gradient."""
        if not isinstance(tensor, DTensor):
            return tensor
        whole = [Replicate() if place.is_partial() else place for place in tensor.placements]
        return DTensor.from_local(tensor.redistribute(self.mesh, whole).to_local(), self.mesh, whole, run_check=False)

    def place(self, name, tensor):
        """A whole input, which all ranks have, as the plan divides it; a copy where the plan has no such input."""
        entry = self.plan["inputs"].get(name)
        return distribute_tensor(tensor, self.mesh, self.of(entry) if entry else [Replicate()] * self.mesh.ndim)

    def constrain(self, name, tensor):
        """A DTensor with the placement that the plan has for the value; unchanged where it has none."""
        entry = self.plan["constraints"].get(name)
        return tensor.redistribute(self.mesh, self.of(entry)) if entry and isinstance(tensor, DTensor) else tensor

    def active(self):
        """Buffers and other plain tensors are copies on all ranks."""
        return implicit_replication()
