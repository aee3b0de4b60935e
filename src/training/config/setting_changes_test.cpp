#include "training/config/setting_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Document settings(const std::string& json) {
  return parse_json(json, "settings");
}

const char* const kStored =
    R"({"model": {"kind": "gpt", "width": 32}, "optimizer": {"kind": "adamw", "beta1": 0.9}})";

TEST(SettingChanges, OfVariablesAreTheModelAndTheKindOfOptimizer) {
  EXPECT_THAT(changed_variable_settings(settings(kStored), settings(kStored)), IsEmpty());
  EXPECT_THAT(
      changed_variable_settings(
          settings(kStored),
          settings(R"({"model": {"kind": "gpt", "width": 64}, "optimizer": {"kind": "sgd"}})")),
      ElementsAre("model.width was 32 and is 64", "optimizer.kind was \"adamw\" and is \"sgd\""));
}

TEST(SettingChanges, OfAnotherKindOfModelTheKindIsEnough) {
  EXPECT_THAT(
      changed_variable_settings(
          settings(kStored),
          settings(R"({"model": {"kind": "mlp", "width": 32, "embedding": 4}, "optimizer": {}})")),
      ElementsAre("model.kind was \"gpt\" and is \"mlp\""));
}

}  // namespace
}  // namespace tessera
