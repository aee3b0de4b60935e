// A verification of plans whose ranks round their parts of the gradients: it accepts right plans,
// and finds an error of four tolerances in any one gradient.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "planner/presets/presets.h"
#include "small_models.h"
#include "training/verify/capture.h"
#include "training/verify/verify.h"

namespace tessera::conformance {
namespace {

/// Adds to the first element of a register, in every rank that has it.
Observer adding(const TaskGraph& tasks, RegisterIndex wanted, double error) {
  return [&tasks, wanted, error](Rank, RegisterIndex index, const Coordinate& coordinate,
                                 const std::byte* data) {
    if (index != wanted) return;
    const Register& reg = tasks.registers[index];
    if (element_count(local_type(reg, coordinate).shape) == 0) return;
    auto* first = const_cast<std::byte*>(data);
    if (reg.type->dtype == DType::kF32) {
      float value = 0;
      std::memcpy(&value, first, sizeof value);
      value += static_cast<float>(error);
      std::memcpy(first, &value, sizeof value);
      return;
    }
    Tensor narrow({reg.type->dtype, {1}});
    std::memcpy(narrow.data(), first, static_cast<size_t>(byte_size(narrow.type()).value()));
    ReferenceTensor tensor = to_reference(narrow);
    tensor.values[0] += error;
    narrow = from_reference(tensor);
    std::memcpy(first, narrow.data(), static_cast<size_t>(byte_size(narrow.type()).value()));
  };
}

class RoundedGradients : public testing::TestWithParam<int> {
 protected:
  static SmallModel model(const std::string& name, DType dtype, uint64_t seed) {
    SmallModel model = small_model(name, {.precision = dtype, .gradients = dtype});
    model.settings.train.seed = seed;
    return model;
  }
  static Plan plan_of(const SmallModel& model, const std::string& preset) {
    return preset_plan(parse_preset(preset),
                       Engine(model.network, model.settings, serial_plan(), model.data).graph());
  }
  static VerifyReport verified(const SmallModel& model, const Plan& plan,
                               const Observer& planted = {}) {
    return verify_plan(model.network, model.settings, plan, model.data,
                       {.steps = 1, .before_capture = planted});
  }

  /// The registers of whole gradients of parameters.
  static std::vector<RegisterIndex> gradients(const TaskGraph& tasks) {
    std::vector<RegisterIndex> found;
    for (const RegisterIndex index : in_program_order(tasks)) {
      const Register& reg = tasks.registers[index];
      const std::string& name = reg.name.text();
      const bool is_whole = reg.attr.partial.empty() && reg.micro_batch.index < 0;
      if (is_whole && name.find(".grad.b") != std::string::npos) found.push_back(index);
    }
    return found;
  }
};

constexpr DType kDtypes[] = {DType::kBF16, DType::kF16};
constexpr const char* kModels[] = {"bert", "image_mlp"};

TEST_P(RoundedGradients, AreAccepted) {
  for (const DType dtype : kDtypes)
    for (const char* name : kModels)
      for (const char* preset : {"dp=2", "dp=2,zero=2,micro_batches=2"}) {
        const SmallModel given = model(name, dtype, static_cast<uint64_t>(GetParam()));
        const VerifyReport report = verified(given, plan_of(given, preset));
        EXPECT_TRUE(report.ok) << name << " " << to_text(dtype) << " " << preset << " seed "
                               << GetParam() << ": " << report.first_difference->value;
      }
}

TEST_P(RoundedGradients, HideNoErrorOfFourTolerances) {
  const DType dtype = kDtypes[GetParam() % 2];
  const SmallModel given =
      model(kModels[GetParam() / 2 % 2], dtype, static_cast<uint64_t>(GetParam()));
  const Plan plan = plan_of(given, "dp=2");
  const Engine engine(given.network, given.settings, plan, given.data);
  const TaskGraph& tasks = engine.compiled().tasks;
  const std::vector<RegisterIndex> all = gradients(tasks);
  ASSERT_FALSE(all.empty());
  const RegisterIndex wrong = all[static_cast<size_t>(GetParam()) * 7 % all.size()];
  // The tolerance is that which the message of a large error prints.
  const VerifyReport large = verified(given, plan, adding(tasks, wrong, 100));
  ASSERT_TRUE(large.first_difference.has_value());
  ASSERT_EQ(large.first_difference->value, tasks.registers[wrong].name.text());
  const double error = 4 * large.first_difference->tolerance;
  const VerifyReport found = verified(given, plan, adding(tasks, wrong, error));
  ASSERT_TRUE(found.first_difference.has_value()) << tasks.registers[wrong].name.text();
  EXPECT_EQ(found.first_difference->value, tasks.registers[wrong].name.text());
}

// Among them seeds at which ranks round partial gradients that cancel.
INSTANTIATE_TEST_SUITE_P(FewSeeds, RoundedGradients, testing::Values(1, 4, 10));
INSTANTIATE_TEST_SUITE_P(AllSeeds, RoundedGradients, testing::Range(1, 25));

}  // namespace
}  // namespace tessera::conformance
