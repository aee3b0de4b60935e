#include "engine/begun_step.h"

#include "autodiff/optimizer.h"
#include "base/error.h"

namespace tessera {

void StepInputs::give(const std::vector<TaskInput>& wanted, const Batch& batch, double rate,
                      int32_t draw) {
  rate_.values<float>()[0] = static_cast<float>(rate);
  number_.values<int32_t>()[0] = draw;
  for (const TaskInput& input : wanted) {
    const Tensor*& place = by_name_[input.name];
    if (const Tensor* of_batch = batch.find(input.name))
      place = of_batch;
    else if (input.name == kLearningRateInput)
      place = &rate_;
    else if (input.name == kStepInput)
      place = &number_;
    else
      throw InternalError("the training graph has an unknown input '" + input.name + "'");
  }
}

double BegunStep::result(const std::string& name) const {
  const auto found = results.find(name);
  return found == results.end() ? 0.0 : found->second.values<float>()[0];
}

}  // namespace tessera
