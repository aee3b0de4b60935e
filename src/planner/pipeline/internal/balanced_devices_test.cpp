#include "planner/pipeline/internal/balanced_devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace tessera {
namespace {

using Ends = std::vector<int>;
using Measure = std::function<double(const std::vector<double>& seconds)>;  // by stage

double longest_stage(const std::vector<double>& seconds) {
  return std::ranges::max(seconds);
}

double longest_of_both_rounds(const std::vector<double>& seconds) {
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  return *std::max_element(seconds.begin(), middle) + *std::max_element(middle, seconds.end());
}

double longest_device_in_v(const std::vector<double>& seconds) {
  double longest = 0;
  for (size_t s = 0; s < seconds.size(); ++s)
    longest = std::max(longest, seconds[s] + seconds[seconds.size() - 1 - s]);
  return longest;
}

double measured(const SplitStages& stages, const Ends& ends, const Measure& measure) {
  std::vector<double> seconds;
  for (size_t s = 0; s < ends.size(); ++s)
    seconds.push_back(stages.before[s][ends[s]] - stages.before[s][s == 0 ? 0 : ends[s - 1]]);
  return measure(seconds);
}

/// Of all cuts.
double min_of_all(const SplitStages& stages, const Measure& measure) {
  const auto count = std::ssize(stages.before), units = std::ssize(stages.before.front()) - 1;
  double smallest = std::numeric_limits<double>::infinity();
  Ends ends;
  const std::function<void(int)> extend = [&](int first) {
    if (std::ssize(ends) == count) {
      if (first == units) smallest = std::min(smallest, measured(stages, ends, measure));
      return;
    }
    for (int end = first + 1; end <= units; ++end) {
      ends.push_back(end);
      extend(end);
      ends.pop_back();
    }
  };
  extend(0);
  return smallest;
}

/// Stages of any of these units, on devices that are n times faster.
SplitStages stages_of(const std::vector<double>& units, const std::vector<double>& speeds) {
  SplitStages stages;
  for (const double speed : speeds) {
    stages.before.emplace_back(1, 0.0);
    for (const double unit : units)
      stages.before.back().push_back(stages.before.back().back() + unit / speed);
  }
  stages.last_end = [end = static_cast<int>(units.size())](int, int) { return end; };
  return stages;
}

std::vector<double> sample(std::mt19937& random, int count, double smallest, double largest) {
  std::vector<double> numbers(count);
  for (double& each : numbers) each = std::uniform_real_distribution(smallest, largest)(random);
  return numbers;
}

TEST(SplitStages, NoOtherCutsAreShorterByTheSameMeasure) {
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    const int count = 2 * (1 + i % 3);
    const std::vector<double> units = sample(random, count + i % 6, 0, 1);
    const SplitStages stages = stages_of(units, sample(random, count, 1, 2));
    const SplitStages of_equal_devices = stages_of(units, std::vector<double>(count, 1));
    const auto check = [&](const SplitStages& tried, const Ends& ends, const Measure& measure) {
      ASSERT_EQ(std::ssize(ends), count);
      EXPECT_EQ(ends.back(), count + i % 6);
      EXPECT_TRUE(ends.front() > 0 && std::ranges::is_sorted(ends, std::ranges::less_equal()));
      EXPECT_LE(measured(tried, ends, measure), (1 + 1e-5) * min_of_all(tried, measure)) << i;
    };
    check(stages, shortest_stage(stages), longest_stage);
    check(stages, shortest_stage_of_both_rounds(stages), longest_of_both_rounds);
    check(of_equal_devices, shortest_device_in_v(of_equal_devices), longest_device_in_v);
  }
}

// A V of two devices: [1] and [1 4] on the first one, [1 4] and [1] on the second one.
TEST(SplitStages, InAVAStageMayBeLongWhereTheOtherOneOfItsDeviceIsShort) {
  const SplitStages stages = stages_of({1, 1, 4, 1, 1, 4}, {1, 1, 1, 1});
  EXPECT_EQ(measured(stages, shortest_device_in_v(stages), longest_device_in_v), 6);
}

TEST(SplitStages, EndWhereTheyMay) {
  SplitStages stages = stages_of({1, 2, 3, 1, 2}, {1, 1, 1, 1});
  EXPECT_EQ(measured(stages, shortest_stage(stages), longest_stage), 3);
  stages.last_end = [](int stage, int) { return stage == 0 ? 1 : 5; };
  EXPECT_EQ(shortest_stage(stages).front(), 1);
  EXPECT_EQ(shortest_stage_of_both_rounds(stages).front(), 1);
}

TEST(SplitStages, OfFewerUnitsThereAreNone) {
  const SplitStages stages = stages_of({1, 1, 1}, {1, 1, 1, 1});
  EXPECT_TRUE(shortest_stage(stages).empty());
  EXPECT_TRUE(shortest_stage_of_both_rounds(stages).empty());
  EXPECT_TRUE(shortest_device_in_v(stages).empty());
}

}  // namespace
}  // namespace tessera
