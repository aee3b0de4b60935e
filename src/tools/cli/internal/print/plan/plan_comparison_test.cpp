#include "tools/cli/internal/print/plan/plan_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// A plan with one parameter and one exchange.
PlanNumbers numbers(const std::string& placement, int64_t parameter_bytes,
                    const std::string& exchange, int64_t sent_bytes) {
  PlanNumbers made;
  made.title = "plan '" + placement + "'";
  made.memory = {{"all", Bytes(parameter_bytes), Bytes(0), Bytes(64)}};
  made.parameters = {{"w", placement, "", "all", 1, Bytes(parameter_bytes)}};
  made.exchanges = {{"y", exchange + " over tp", "forward", "all", 1, Bytes(sent_bytes)}};
  made.all_sent = {"", 1, 1, Bytes(sent_bytes)};
  made.sent = {{"tp", 1, 1, Bytes(sent_bytes)}};
  return made;
}

const PlanNumbers kDivided = numbers("[@tp]", 8, "all-reduce", 32);
const PlanNumbers kWhole = numbers("[*]", 16, "all-gather", 8);

TEST(PlanComparison, OfAPlanWithItselfHasNoDifference) {
  const PlanComparison same = comparison_of(kDivided, kDivided, {});
  EXPECT_THAT(same.tensors, IsEmpty());
  EXPECT_THAT(same.exchanges, IsEmpty());
  EXPECT_THAT(comparison_text(kDivided, kDivided, same, 10),
              HasSubstr("The plans have no difference in memory, exchanges and bubble.\n"));
  EXPECT_TRUE(comparison_document(kDivided, kDivided, same).find("is_same")->as_bool());
}

TEST(PlanComparison, NamesTheDifferencesOfBothPlans) {
  const PlanComparison made = comparison_of(kDivided, kWhole, {});
  ASSERT_THAT(made.tensors, SizeIs(1));
  EXPECT_EQ(made.tensors[0].text, "[@tp]");
  EXPECT_EQ(made.tensors[0].other_text, "[*]");
  EXPECT_EQ(made.tensors[0].difference(), Bytes(8));  // 16 - 8
  ASSERT_THAT(made.exchanges, SizeIs(1));
  EXPECT_EQ(made.exchanges[0].difference(), Bytes(-24));  // 8 - 32
  const std::string text = comparison_text(kDivided, kWhole, made, 10);
  EXPECT_THAT(text, HasSubstr("\nparameters         8 B  16 B   +8 B\n"));
  EXPECT_THAT(text, HasSubstr("\nactivations       64 B  64 B   same\n"));
  EXPECT_THAT(text, HasSubstr("all-reduce over tp  all-gather over tp"));
}

TEST(PlanComparison, HasTheOtherPlacementOfEqualBytesToo) {
  const PlanNumbers columns = numbers("[*, @tp]", 8, "all-reduce", 32);
  const PlanNumbers rows = numbers("[@tp, *]", 8, "all-reduce", 32);
  const PlanComparison made = comparison_of(columns, rows, {});
  ASSERT_THAT(made.tensors, SizeIs(1));
  EXPECT_EQ(made.tensors[0].difference(), Bytes(0));
  EXPECT_THAT(made.exchanges, IsEmpty());
  EXPECT_THAT(comparison_text(columns, rows, made, 10), HasSubstr("\nNo exchange differs.\n"));
}

TEST(PlanComparison, SaysThatStagesWaitInTheOnlyMicroBatch) {
  PlanNumbers stages = kDivided;
  stages.memory.push_back(stages.memory.front());
  EXPECT_THAT(
      comparison_text(stages, kWhole, comparison_of(stages, kWhole, {}), 10),
      HasSubstr("\nbubble of a step, on average: A each stage waits for the others, with one "
                "micro-batch, B 0.0%\n"));
}

TEST(PlanComparison, OfAPlanWithoutExchangesNamesThemNone) {
  PlanNumbers serial = numbers("[*]", 16, "", 0);
  serial.exchanges.clear();
  serial.sent.clear();
  serial.all_sent = {};
  const PlanComparison made = comparison_of(serial, kWhole, {});
  EXPECT_THAT(made.tensors, IsEmpty());
  ASSERT_THAT(made.exchanges, SizeIs(1));
  EXPECT_EQ(made.exchanges[0].text, "none");
  EXPECT_THAT(comparison_text(serial, kWhole, made, 10),
              HasSubstr("\nover tp                   0  1"));
}

TEST(PlanComparison, BeginsWithTheGreatestAndSaysHowManyAreLeftOut) {
  PlanNumbers one = numbers("[*]", 1, "all-reduce", 8), other = one;
  other.parameters[0].bytes = Bytes(3);
  other.parameters.push_back({"v", "[*]", "", "all", 1, Bytes(100)});
  const PlanComparison made = comparison_of(one, other, {});
  ASSERT_THAT(made.tensors, SizeIs(2));
  EXPECT_EQ(made.tensors[0].name, "v");
  EXPECT_THAT(comparison_text(one, other, made, 1), HasSubstr("1 more line: --full prints all\n"));
}

}  // namespace
}  // namespace tessera
