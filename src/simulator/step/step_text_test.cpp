#include "simulator/step/step_text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(StepText, TimesOfStepsHaveFourDigitsInMillisecondsAndFromTenSecondsOnInSeconds) {
  EXPECT_EQ(step_text(Seconds(0.27843)), "278.4 ms");
  EXPECT_EQ(step_text(Seconds(0.00016)), "0.16 ms");
  EXPECT_EQ(step_text(Seconds(0)), "0 ms");
  EXPECT_EQ(step_text(Seconds(9.9994)), "9999 ms");
  EXPECT_EQ(step_text(Seconds(9.99951)), "10 s");
  EXPECT_EQ(step_text(Seconds(197.63)), "197.6 s");
  EXPECT_EQ(step_text(Seconds(123456.7)), "123457 s");
}

TEST(StepText, DifferencesOfStepsHaveASignAndTheUnitOfTheTotal) {
  EXPECT_EQ(step_difference_text(Seconds(0.000292)), "+0.292 ms");
  EXPECT_EQ(step_difference_text(Seconds(-1.8144)), "-1814 ms");
  EXPECT_EQ(step_difference_text(Seconds(12.54)), "+12.5 s");
  EXPECT_EQ(step_difference_text(Seconds(0.5), Seconds(12.5)), "+0.5");
  EXPECT_EQ(step_difference_text(Seconds(0.5), Seconds(1.25)), "+500");
}

}  // namespace
}  // namespace tessera
