#include "planner/search/internal/savings/saved_candidate.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Source = Candidate::Source;

std::string name_with(Source source, const std::string& name, const std::string& decisions) {
  const Candidate made = with_name_of({source, name, serial_plan()}, decisions);
  EXPECT_EQ(made.plan.name, made.name);
  return made.name;
}

TEST(SavedCandidate, OfAPresetHasTheNameOfAPreset) {
  const std::string decisions = "recompute=auto,activation_mib=8";
  EXPECT_EQ(name_with(Source::kPreset, "dp=4,recompute=full", decisions),
            "dp=4,recompute=auto,activation_mib=8");
  EXPECT_EQ(name_with(Source::kPreset, "dp=4", "recompute,activation_mib"), "dp=4");
  EXPECT_EQ(name_with(Source::kOneDevice, "one device", decisions),
            "dp=1,recompute=auto,activation_mib=8");
}

TEST(SavedCandidate, OfAPipelineSaysTheLastOfEachDecision) {
  EXPECT_EQ(name_with(Source::kPipeline, "stages 4 x dp=1, 1f1b, recompute=selective, zero=1",
                      "recompute=auto,activation_mib=0.5"),
            "stages 4 x dp=1, 1f1b, zero=1, recompute=auto, activation_mib=0.5");
}

TEST(SavedCandidate, OfAPlanOfTheUserIsNone) {
  for (const Source source : {Source::kCompared, Source::kCached})
    EXPECT_EQ(with_name_of({source, "a.json", serial_plan()}, "offload=state").source,
              Source::kMemorySaving);
}

TEST(SavedCandidate, BytesAreRoundedDownToWhatPlansSay) {
  EXPECT_EQ(mib_text(Bytes(int64_t{812} << 20)), "812");
  EXPECT_EQ(mib_text(Bytes((int64_t{812} << 20) - 1)), "811");
  EXPECT_EQ(mib_text(Bytes((13 << 18) + 1)), "3.25");
  EXPECT_EQ(mib_text(Bytes(100)), "0");
}

}  // namespace
}  // namespace tessera
