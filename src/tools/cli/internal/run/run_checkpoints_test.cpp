#include "tools/cli/internal/run/run_checkpoints.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Document settings(const std::string& json) {
  return parse_json(json, "settings");
}

TEST(ChangedSettings, AreListedWithWhatTheyWere) {
  const Document stored = settings(
      R"({"train": {"batch": 4, "steps": 6}, "optimizer": {"kind": "sgd", "learning_rate": 0.1}})");
  EXPECT_EQ(changed_settings_text(stored, stored), "");
  EXPECT_EQ(
      changed_settings_text(
          stored,
          settings(R"({"train": {"batch": 4, "steps": 9}, "optimizer": {"kind": "adam", "beta1": )"
                   R"(0.9}})")),
      "train.steps was 6 and is 9\noptimizer.kind was \"sgd\" and is \"adam\"\noptimizer.beta1 was "
      "not there and is 0.9\n");
}

TEST(ChangedSettings, ThatChangeNoStepAreNotListed) {
  EXPECT_EQ(changed_settings_text(
                settings(R"({"train": {"evaluate_every": 0}, "checkpoint": {"every": 1}})"),
                settings(R"({"train": {"evaluate_every": 5}, "checkpoint": {"every": 2}})")),
            "");
}

}  // namespace
}  // namespace tessera
