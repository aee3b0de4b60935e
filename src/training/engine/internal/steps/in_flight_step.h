// The data that a training step holds while it is in flight. Its memory is reused by later steps.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor/tensor.h"
#include "base/units.h"
#include "runtime/runtime/runtime.h"
#include "task_graph/tasks/task_graph.h"
#include "training/data/batch.h"

namespace tessera {

/// The inputs of a training step, or of a part of one: tensors of its batch, the learning rate, and
/// its number.
class StepInputs {
 public:
  StepInputs() = default;
  StepInputs(const StepInputs&) = delete;  // by_name() points into it
  StepInputs& operator=(const StepInputs&) = delete;

  /// Finds a tensor for each of `wanted`. `batch` outlives the step.
  ///   number  seeds dropout, and is the step for the optimizer
  ///   throws  InternalError when one is none of these: a tensor of the batch, the rate, the number
  void set(const std::vector<TaskInput>& wanted, const Batch& batch, double rate, int32_t number);

  const std::map<std::string, const Tensor*>& by_name() const { return by_name_; }
  /// The rate that the ranks get, in f32.
  double rate() const { return rate_.values<float>()[0]; }

 private:
  Tensor rate_ = Tensor::scalar(0.0f);
  Tensor number_ = Tensor::scalar(int32_t{0});
  std::map<std::string, const Tensor*> by_name_;
};

struct InFlightStep {
  StepInputs inputs;
  TensorMap results;
  std::optional<Batch> batch;  // from the loader; nullopt: the batch is the caller's
  Seconds data_wait{0};

  /// A scalar result; 0 when there is none of this name.
  double result(const std::string& name) const;
};

}  // namespace tessera
