"""Prints the tensors of a checkpoint: python3 read_checkpoint.py CHECKPOINT"""
import array
import itertools
import json
import math
import pathlib
import sys


def read_tensors(checkpoint):
    """Yields (name, shape, numbers in row-major order) of every f32 tensor."""
    folder = pathlib.Path(checkpoint)
    index = json.loads((folder / "index.json").read_text())
    for name, tensor in index["tensors"].items():
        if tensor["dtype"] != "F32":
            continue
        shape = tensor["shape"]
        whole = array.array("f", bytes(4 * math.prod(shape)))
        for part in tensor["parts"]:  # a box of the tensor: where it begins, and its shape
            with open(folder / part["file"], "rb") as file:
                file.seek(part["offset"])
                box = array.array("f", file.read(4 * math.prod(part["shape"])))
            places = itertools.product(*map(range, part["shape"]))
            for value, place in zip(box, places):
                at = 0
                for extent, begin, i in zip(shape, part["offsets"], place):
                    at = at * extent + begin + i
                whole[at] = value
        yield name, shape, whole


if __name__ == "__main__":
    for name, shape, numbers in read_tensors(sys.argv[1]):
        print(name, shape, numbers[:4].tolist())
