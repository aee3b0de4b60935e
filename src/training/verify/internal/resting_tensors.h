// Tensors between their uses: the states that a verification keeps for later.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/tensor/tensor.h"
#include "runtime/device/file_device.h"
#include "runtime/memory/run_types.h"

namespace tessera {

/// Tensors by name. Where they are large together, they rest in a file without a name in the folder
/// of temporary files, so that they take no memory; in memory where that has no space for them.
class RestingTensors {
 public:
  explicit RestingTensors(bool in_file) {
    if (in_file) file_ = std::make_unique<FileDevice>();
  }

  /// Keeps a tensor, instead of an earlier one of that name and type.
  void put(const std::string& name, Tensor tensor);
  /// A copy.
  Tensor get(const std::string& name) const;
  bool contains(const std::string& name) const;
  void clear();

 private:
  struct InFile {
    TensorType type;
    DeviceMemory memory;
  };
  bool put_into_file(const std::string& name, const Tensor& tensor);

  std::unique_ptr<FileDevice> file_;
  std::map<std::string, InFile> in_file_;
  TensorMap in_memory_;
};

}  // namespace tessera
