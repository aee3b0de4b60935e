#include "cluster/cost/fit_link.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

TEST(FitLink, FindsTheLineThroughTheTimes) {
  const LinkCost link{Seconds(5e-6), 2e9};
  std::vector<MeasuredTime> times;
  for (int64_t bytes : {0, 1000, 100'000, 10'000'000})
    times.push_back({Bytes(bytes), message_price(Bytes(bytes), link).estimate});
  const LinkCost found = fit_link(times);
  EXPECT_NEAR(found.latency.value(), 5e-6, 1e-12);
  EXPECT_NEAR(found.bytes_per_second, 2e9, 1);
  EXPECT_LT(mean_relative_error(found, times), 1e-9);
}

TEST(FitLink, TheLatencyIsNotNegative) {
  const LinkCost link =
      fit_link(std::vector<MeasuredTime>{{Bytes(100), Seconds(1)}, {Bytes(200), Seconds(3)}});
  EXPECT_EQ(link.latency, Seconds(0));
  EXPECT_EQ(fit_link(std::vector<MeasuredTime>{{Bytes(100), Seconds(2)}}),
            (LinkCost{Seconds(0), 50}));
  EXPECT_THROW(fit_link({}), InternalError);
  EXPECT_THROW(fit_link(std::vector<MeasuredTime>{{Bytes(0), Seconds(2)}}), InternalError);
}

/// By what was measured: the times of published tables, which are not part of the project.
using Groups = std::map<std::string, std::vector<MeasuredTime>>;

const std::filesystem::path kTables =
    std::filesystem::path(TESSERA_SOURCE_DIR) / "../shared/data/measured";

/// Each line of a CSV file as its cells, without comments and the header.
template <typename Use>
void each_row(const std::filesystem::path& file, const Use& use) {
  std::ifstream stream(file);
  bool header = true;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (!header) use(split_text(line, ','));
    header = false;
  }
}

/// The mean error of what is not fitted: every third time is, in the order of the table.
double error_of_the_rest(const Groups& groups) {
  double sum = 0, count = 0;
  for (const auto& [name, times] : groups) {
    std::vector<MeasuredTime> fitted, rest;
    for (size_t i = 0; i < times.size(); ++i) (i % 3 == 0 ? fitted : rest).push_back(times[i]);
    sum += mean_relative_error(fit_link(fitted), rest) * static_cast<double>(rest.size());
    count += static_cast<double>(rest.size());
  }
  return sum / count;
}

TEST(FitLink, PredictsPublishedAllReducesOfOneMachine) {
  const std::filesystem::path file = kTables / "vtrain_allreduce_measured.csv";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not here";
  Groups groups;
  each_row(file, [&](const std::vector<std::string>& row) {
    groups[row[0] + " " + row[1]].push_back(
        {Bytes(std::stoll(row[2])), Seconds(1e-9 * std::stod(row[3]))});
  });
  EXPECT_EQ(groups.size(), 14);
  const double error = error_of_the_rest(groups);
  RecordProperty("mean_error", std::to_string(error));
  EXPECT_LT(error, 0.06);
}

TEST(FitLink, PredictsPublishedAllReducesOfSixTypesOfDevices) {
  const std::filesystem::path file = kTables / "sailor_collectives_measured.csv";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not here";
  Groups groups;
  each_row(file, [&](const std::vector<std::string>& row) {
    if (row[1] == "all_reduce")
      groups[row[0] + " " + row[2]].push_back({Bytes(static_cast<int64_t>(1e6 * std::stod(row[4]))),
                                               Seconds(1e-3 * std::stod(row[5]))});
  });
  EXPECT_EQ(groups.size(), 15);
  const double error = error_of_the_rest(groups);
  RecordProperty("mean_error", std::to_string(error));
  EXPECT_LT(error, 0.06);
}

}  // namespace
}  // namespace tessera
