// A step that another program trained, in a folder: read, assembled from the parts of its ranks,
// and compared with the reference interpreter.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "training/config/config.h"
#include "training/verify/step_check.h"

namespace tessera {

/// The folder, as clients/tessera_dump.py writes it:
///
///     dump.json            {"loss": 1.5, "mesh": [2, 2], "placements": {NAME: ["Replicate()",
///                          "Shard(dim=0)"]}, "set": ["train.precision=bf16"]}; all may be absent,
///                          and a parameter without placements is the same on all ranks
///     inputs.safetensors   tokens and targets, i64[rows, tokens] of the whole batch
///     rank-N/              of rank N of the mesh, the last axis fastest: weights.safetensors,
///                          gradients.safetensors and updated.safetensors, by the names of the
///                          parameters in the other program; the last two may be absent
struct DumpFolder {
  std::filesystem::path path;
  /// What the dump says of the configuration: "train.batch=8", "model.context=32", and its "set".
  std::vector<std::string> sets;
  int64_t rows = 0, context = 0;
};

/// Reads what the configuration needs.
///   throws  UserError: 66 for a missing file; 65 for what is malformed
DumpFolder read_dump(const std::filesystem::path& folder);

/// What the comparison found.
struct DumpedReport {
  ForeignStepReport step;
  /// The rank that has the first difference, where others have the right value. -1: all have it.
  int rank = -1;
};

/// Compares the loss, gradients and updated parameters of every rank.
///
///   config  of the model, with DumpFolder::sets
///   names   a config.json or a folder with one, whose names the parameters have; another file:
///           they have ours
///   throws  UserError: 65 for parameters that are missing or have another shape, for parts that
///           are no division of PyTorch's DTensor (torch.chunk), for partial and strided
///           placements; 5 as check_step
///   memory  a model of a few million parameters: the reference interpreter computes in f64
DumpedReport verify_dump(const RunConfig& config, const std::filesystem::path& names,
                         const DumpFolder& dump);

}  // namespace tessera
