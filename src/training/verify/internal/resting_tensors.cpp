#include "training/verify/internal/resting_tensors.h"

#include "base/error.h"

namespace tessera {
namespace {

/// Smaller tensors stay in memory.
constexpr Bytes kMinInFile{1 << 20};

}  // namespace

void RestingTensors::put(const std::string& name, Tensor tensor) {
  if (put_into_file(name, tensor)) return;
  in_memory_.insert_or_assign(name, std::move(tensor));
}

bool RestingTensors::put_into_file(const std::string& name, const Tensor& tensor) {
  const Bytes size = byte_size(tensor.type());
  if (!file_ || size < kMinInFile) return false;
  auto found = in_file_.find(name);
  if (found == in_file_.end()) {
    try {
      found = in_file_.emplace(name, InFile{tensor.type(), file_->allocate(size)}).first;
    } catch (const UserError&) {
      return false;  // the disk is full
    }
  }
  ensure(found->second.type == tensor.type(), "a tensor keeps its type");
  file_->write(found->second.memory.address(), tensor.data(), size);
  return true;
}

Tensor RestingTensors::get(const std::string& name) const {
  const auto found = in_file_.find(name);
  if (found == in_file_.end()) return in_memory_.at(name).clone();
  Tensor tensor(found->second.type);
  file_->read(tensor.data(), found->second.memory.address(), byte_size(tensor.type()));
  return tensor;
}

bool RestingTensors::contains(const std::string& name) const {
  return in_file_.contains(name) || in_memory_.contains(name);
}

void RestingTensors::clear() {
  in_memory_.clear();
  in_file_.clear();
}

}  // namespace tessera
