// The variables that a trained model needs to be used, as one safetensors file: parameters and the
// statistics of norms, without the state of the optimizer.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "training/checkpoint/checkpoint.h"
#include "training/engine/checkpointing.h"

namespace tessera {

enum class TensorLayout {
  kNative,  // as the program has them: the weight of a linear layer is [in, out], [in, heads, size]
  kTorch,   // as torch.nn has them: the weight of a linear layer is [out, in]
};
std::string_view to_text(TensorLayout layout);  // "native", "torch"

struct ExportedTensor {
  std::string name;
  Shape stored;     // in the checkpoint
  TensorType type;  // as it is written
  bool is_transposed = false;
};

/// The variables of the evaluation graph of a stored model, in the order of the graph. For kTorch,
/// a tensor whose first dims every product contracts, and whose other dims it keeps, becomes a
/// matrix [kept, contracted]: f32[128,4,32], which makes four heads of 32 features, becomes
/// f32[128,128]. What is added to the result of a product becomes a vector.
std::vector<ExportedTensor> exported_tensors(const StoredRun& run, TensorLayout layout);

/// Writes them aside and then renames the file, so that `to` is complete or is not there; a
/// symbolic link is followed, and a device or a folder refused. Its
/// metadata has "format" ("pt", for the loaders of PyTorch), "layout" and "step".
///   throws  UserError: 65 when the checkpoint lacks one or is damaged, 1 when the file cannot be
///           written
///   memory  all of the tensors
void export_parameters(FileSystem& files, const Checkpoint& checkpoint,
                       const std::vector<ExportedTensor>& tensors, TensorLayout layout,
                       const std::filesystem::path& to);

}  // namespace tessera
