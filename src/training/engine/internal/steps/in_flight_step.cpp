#include "training/engine/internal/steps/in_flight_step.h"

#include "base/error.h"
#include "ir/autodiff/optimizer.h"

namespace tessera {

void StepInputs::set(const std::vector<TaskInput>& wanted, const Batch& batch, double rate,
                     int32_t number) {
  rate_.values<float>()[0] = static_cast<float>(rate);
  number_.values<int32_t>()[0] = number;
  for (const TaskInput& input : wanted) {
    const Tensor*& tensor = by_name_[input.name];
    if (const Tensor* of_batch = batch.find(input.name))
      tensor = of_batch;
    else if (input.name == kLearningRateInput)
      tensor = &rate_;
    else if (input.name == kStepInput)
      tensor = &number_;
    else
      throw InternalError("the training graph has an unknown input '" + input.name + "'");
  }
}

double InFlightStep::result(const std::string& name) const {
  const auto found = results.find(name);
  return found == results.end() ? 0.0 : found->second.values<float>()[0];
}

}  // namespace tessera
