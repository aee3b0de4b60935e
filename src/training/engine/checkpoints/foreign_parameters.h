// Parameters in the files of other programs, which have other names, layouts and element types:
// loading them into an engine, each rank the elements that it holds, and writing them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/safetensors.h"
#include "training/engine/engine.h"

namespace tessera {

/// Where the elements of a variable are in a tensor of a file. The variable is a matrix [in, out]:
/// its first `input_dims` dims are `in`, the others `out`.
struct ForeignTensor {
  std::string name;
  int input_dims = 0;        // 0: a vector [out]
  bool transposed = false;   // is the matrix of the file [out, in]?
  bool keeps_shape = false;  // has the tensor the shape of the variable, whatever its dims?
  /// Output o is output first + o / group * stride + o % group of the file, where several variables
  /// are one tensor; group 0 stands for all outputs.
  int64_t first = 0, group = 0, stride = 0;
};

/// The tensors of a kind of model.
struct ForeignNames {
  std::map<std::string, ForeignTensor> by_variable = {};
  /// What the names begin with in some files and not in others: "transformer.".
  std::string prefix = {};
  /// Parts of names, and what older files have in their place.
  std::vector<std::pair<std::string, std::string>> former = {};
  /// Patterns, as in marks, of tensors that say nothing: masks, tied copies.
  std::vector<std::string> ignored = {};
};

/// Tensors in one safetensors file, or in those of a folder: model.safetensors, or the files that
/// model.safetensors.index.json lists.  threads  any number at the same time
class TensorFiles {
 public:
  ///   throws  UserError: 66 when there is none, 65 when one is damaged
  TensorFiles(FileSystem& files, const std::filesystem::path& path);

  /// The file that has a tensor, and its entry there; nullptr: none has it.
  const SafetensorsFile* find(const std::string& name) const;
  std::vector<std::string> names() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*> by_name_;
};

/// Every variable by its own name, in its own layout: what parameters that export wrote as native
/// have.
ForeignNames own_names(const Graph& graph);

/// Sets the trainable variables of the engine. Elements of f16, bf16 and f64 become those of the
/// variable.
///   returns  the tensors of the files that no variable reads, except for the ignored ones
///   throws   UserError (65) that lists every tensor that is missing or has another shape; for an
///            element type that is no number, and values that are not finite
std::vector<std::string> load_foreign_parameters(Engine& engine, const TensorFiles& files,
                                                 const ForeignNames& names);

/// Writes the parameters of a checkpoint into a folder as other programs name them:
/// model.safetensors, or several of at most `bytes_of_file` with an index. Files of the folder with
/// these names are replaced.
///   throws  UserError: 65 when the checkpoint lacks a variable or has another type of it, 1 when a
///           file cannot be written
///   memory  the tensors of one file
void export_foreign_parameters(FileSystem& files, const Checkpoint& checkpoint,
                               const std::map<std::string, TensorType>& variables,
                               const ForeignNames& names, const std::filesystem::path& folder,
                               Bytes bytes_of_file);

}  // namespace tessera
