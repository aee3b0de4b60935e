#include "tools/cli/internal/print/plan/explain_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A product that the plan divides by rows: 10 ms; whole it takes 12.5 ms; by columns nothing fits.
ExplainedChoice product() {
  ChoicePrices prices;
  prices.name = "y";
  prices.identical = 3;
  prices.chosen = {"[@x, *]", Seconds(1e-3), Seconds(10e-3)};
  prices.others = {{"[*, *]", Seconds(2e-3), Seconds(12.5e-3)}, {"[*, @x]", Seconds(1e-3), {}}};
  prices.best = Seconds(10e-3);
  prices.with_any_memory = Seconds(10e-3);
  prices.with_any_memory_text = "[@x, *]";
  return {.name = "y", .placement = "[@x, *]", .prices = prices, .changes = {}};
}

TEST(ExplainedChoice, OthersStandBesideTheChosenOne) {
  const std::string text = choice_text(product());
  EXPECT_THAT(text, HasSubstr("The price of the placement of y, with 2 identical\n"));
  EXPECT_THAT(text, HasSubstr("[@x, *]          1 ms                10 ms  the plan\n"));
  EXPECT_THAT(text, HasSubstr("[*, *]           2 ms              12.5 ms  +2.5 ms\n"));
  EXPECT_THAT(text, HasSubstr("[*, @x]          1 ms         does not fit\n"));
  EXPECT_THAT(text, HasSubstr("bound by nothing but time"));
}

TEST(ExplainedChoice, PlacementsThatAreNotPrintedAreCounted) {
  ExplainedChoice choice = product();
  choice.prices->others.resize(8);
  choice.prices->not_priced = 4;
  // Five of the eight are printed.
  EXPECT_THAT(choice_text(choice), HasSubstr("  7 other placements more\n"));
  EXPECT_THAT(choice_text(product()), Not(HasSubstr("more")));
}

TEST(ExplainedChoice, WhatBindsIsTold) {
  ExplainedChoice choice = product();
  choice.prices->is_fixed = true;
  choice.prices->unfixed = Seconds(8e-3);
  choice.prices->with_any_memory = Seconds(9e-3);
  choice.prices->with_any_memory_text = "[*, *]";
  const std::string text = choice_text(choice);
  EXPECT_THAT(text,
              HasSubstr("bound by a mark or a fixed degree: without it 8 ms instead of 10 ms"));
  EXPECT_THAT(text, HasSubstr("bound by the memory: with any memory 9 ms instead of 10 ms, and the "
                              "placement [*, *]\n"));
  EXPECT_THAT(text, Not(HasSubstr("nothing but time")));
}

TEST(ExplainedChoice, ChangesSayWhetherThePlanAndThePlacementStay) {
  ExplainedChoice choice = product();
  choice.changes = {{"half the bandwidth", Seconds(3e-3), Seconds(3e-3), "", "[@x, *]"},
                    {"half the memory", {}, Seconds(4e-3), "search x=4", "[*, *]"},
                    {"half the batch", {}, {}, "", ""}};
  const std::string text = choice_text(choice);
  // "half the bandwidth", "step of this plan", "nothing fits" and "search x=4" are the widest
  // cells.
  EXPECT_THAT(text, HasSubstr("half the bandwidth               3 ms          3 ms  the same    "
                              "the same\n"));
  EXPECT_THAT(text, HasSubstr("half the memory          does not fit          4 ms  search x=4  "
                              "[*, *]\n"));
  EXPECT_THAT(text, HasSubstr("half the batch           does not fit  nothing fits\n"));
}

TEST(ExplainedChoice, PlansThatAreNotSearchedHaveNoPrice) {
  ExplainedChoice choice = product();
  choice.prices.reset();
  EXPECT_THAT(choice_text(choice), HasSubstr("it has none: plans with stages or micro-batches"));
  EXPECT_EQ(choice_document(choice).find("chosen"), nullptr);
}

}  // namespace
}  // namespace tessera
