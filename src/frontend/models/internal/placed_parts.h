// Whole tensors from the parts of ranks that PyTorch's DTensor divided.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "training/checkpoint/safetensors.h"

namespace tessera {

/// The ranks of a program, the last axis fastest, and the placement of each tensor by axis: the dim
/// that it divides, or -1 for copies. Tensors that are absent are copies on all axes.
struct PlacedTensors {
  std::vector<int64_t> mesh{1};
  std::map<std::string, std::vector<int>> dims = {};

  int64_t ranks() const;
};

struct WholeTensor {
  FileDType dtype = FileDType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;
};

/// By name; and by rank those of which its part is not what the first rank with this part has.
struct WholeTensors {
  std::map<std::string, WholeTensor> first;
  std::map<int, std::map<std::string, WholeTensor>> differing;
};

/// Reads `NAME.safetensors` of rank-0, rank-1, ... in a folder.
///   source  torch.distributed.tensor: Shard(d) is torch.chunk, the axes of the mesh from the first
///           to the last
///   throws  UserError (65) for a tensor that a rank lacks, and for a part of another extent
WholeTensors whole_tensors(FileSystem& files, const std::filesystem::path& folder,
                           const std::string& name, const PlacedTensors& placed);

}  // namespace tessera
