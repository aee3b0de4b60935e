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

// A cosine over 201 steps is at its end, a tenth of the peak; over 401 it is at the middle.
TEST(RateJumpNote, SaysThatALongerScheduleRaisesTheRate) {
  const Schedule stored{.kind = ScheduleKind::kCosine, .peak = 1e-3, .steps = 201, .final = 0.1};
  Schedule longer = stored;
  longer.steps = 401;
  EXPECT_EQ(rate_jump_note(stored, longer, 200),
            "note: the learning rate jumps: step 201 has 0.00055, where the stored run would have "
            "0.0001; the schedule is now that of 401 steps\n");
  EXPECT_EQ(rate_jump_note(stored, stored, 100), "");
  EXPECT_EQ(rate_jump_note(stored, stored, 201), "") << "no step is left";
  const Schedule constant{.peak = 1e-3, .steps = 10};
  Schedule more = constant;
  more.steps = 20;
  EXPECT_EQ(rate_jump_note(constant, more, 10), "");
  more.peak = 2e-3;
  EXPECT_EQ(rate_jump_note(constant, more, 10),
            "note: the learning rate jumps: step 11 has 0.002, where the stored run would have "
            "0.001; the schedule is now that of 20 steps\n");
}

}  // namespace
}  // namespace tessera
