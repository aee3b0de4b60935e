// What a training step holds while it is under way. Its memory is used again by later ones.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "data/batch.h"
#include "runtime/runtime.h"

namespace tessera {

/// The inputs of a step, or of a part of one: tensors of its batch, the learning rate, and its
/// number.
class StepInputs {
 public:
  /// Finds a tensor for each of `wanted` in `batch`, which stays as long as the step takes.
  ///   draw    numbers the random numbers of dropout, and the step for the optimizer
  ///   throws  InternalError when one is none of those
  void give(const std::vector<TaskInput>& wanted, const Batch& batch, double rate, int32_t draw);

  const std::map<std::string, const Tensor*>& by_name() const { return by_name_; }
  /// As the ranks get it.
  double rate() const { return rate_.values<float>()[0]; }

 private:
  Tensor rate_ = Tensor::scalar(0.0f);
  Tensor number_ = Tensor::scalar(int32_t{0});
  std::map<std::string, const Tensor*> by_name_;
};

struct BegunStep {
  StepInputs inputs;
  TensorMap results;
  std::optional<Batch> batch;  // of the loader; none: the caller's
  int64_t tokens = 0;
  Seconds data_wait{0};

  /// A result that is one number; 0 when there is none of this name.
  double result(const std::string& name) const;
};

}  // namespace tessera
