// Exchanges that are run with ranks as threads and over every transport: gathers, sums, transposes;
// by rows and by columns, even and uneven, small ones and ones that are sent in pieces.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/runtime/testing/programs.h"

namespace tessera::testing_programs {

struct ReshardCase {
  std::string mesh, from, to;
};

inline const std::vector<ReshardCase>& ways_between_members() {
  static const std::vector<ReshardCase> all{
      {"dp=4", "f32[8@dp, 3]", "f32[8, 3]"},
      {"dp=4", "f32[3, 8@dp]", "f32[3, 8]"},
      {"dp=4", "f32[5@dp, 2]", "f32[5, 2]"},
      {"dp=4", "f32[9] {partial sum: dp}", "f32[9]"},
      {"dp=4", "f32[300, 1001] {partial sum: dp}", "f32[300, 1001]"},
      {"dp=4", "f32[700, 1001] {partial sum: dp}", "f32[700, 1001@dp]"},
      {"dp=4", "f32[300, 999@dp]", "f32[300@dp, 999]"},
      {"dp=4", "bool[5] {partial any: dp}", "bool[5]"},
      {"dp=4", "i32[5] {partial min: dp}", "i32[5]"},
      {"dp=2 tp=2", "f32[8@dp, 6@tp]", "f32[8@tp, 6@dp]"},
      {"dp=2 tp=2", "f32[500@dp, 600] {partial sum: tp}", "f32[500@dp, 600@tp]"},
      {"dp=3 tp=2", "f32[8@dp, 6] {partial sum: tp}", "f32[8@tp, 6@dp]"},
  };
  return all;
}

/// Tensors that are exchanged together, each from and to its own placement.
struct ReshardPair {
  std::string mesh;
  std::vector<std::pair<std::string, std::string>> parts;
};

/// Small parts that share a message, parts of several pieces, parts that a rank does not take part
/// in, of several element types.
inline const std::vector<ReshardPair>& ways_together() {
  static const std::vector<ReshardPair> all{
      {"dp=4",
       {{"f32[9] {partial sum: dp}", "f32[9]"},
        {"f32[300, 1001] {partial sum: dp}", "f32[300, 1001]"},
        {"f32[] {partial sum: dp}", "f32[]"},
        {"i32[33, 2] {partial sum: dp}", "i32[33, 2]"}}},
      {"dp=4",
       {{"f32[5@dp, 2]", "f32[5, 2]"},
        {"f32[3, 8@dp]", "f32[3, 8]"},
        {"bool[2@dp]", "bool[2]"},
        {"f32[400@dp, 500]", "f32[400, 500]"},
        {"i32[7@dp]", "i32[7]"}}},
      {"dp=4",
       {{"f32[7, 80] {partial sum: dp}", "f32[7, 80@dp]"},
        {"f32[2] {partial sum: dp}", "f32[2@dp]"},
        {"f32[700, 1001] {partial sum: dp}", "f32[700@dp, 1001]"}}},
      {"dp=2 tp=2",
       {{"f32[50@tp, 6] {partial sum: dp}", "f32[50@tp, 6]"},
        {"f32[11] {partial sum: dp}", "f32[11]"},
        {"f32[8, 3@tp] {partial sum: dp}", "f32[8, 3@tp]"}}},
      {"dp=2 tp=2",
       {{"f32[8@dp, 6@tp]", "f32[8@tp, 6@dp]"}, {"i32[5@dp, 9@tp]", "i32[5@tp, 9@dp]"}}},
      {"dp=4", {{"f32[5]", "f32[5] {partial sum: dp}"}, {"f32[]", "f32[] {partial sum: dp}"}}},
  };
  return all;
}

/// Exchanges x0, x1, ... as the parts of one task, or each by itself. What is partial then is
/// reduced to be a result.
inline HandMade exchanging(const ReshardPair& way, bool together) {
  HandMade made(mesh_of(way.mesh));
  std::vector<RegisterIndex> sources, targets;
  std::vector<std::string> types;
  for (const auto& [from, to] : way.parts) {
    sources.push_back(feed_anything(made, "x" + std::to_string(sources.size()), from));
    types.push_back(to);
  }
  if (together)
    targets = made.exchange("all", sources, types);
  else
    for (size_t i = 0; i < sources.size(); ++i)
      targets.push_back(made.exchange("alone " + std::to_string(i), sources[i], types[i]));
  for (size_t i = 0; i < targets.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    const bool is_partial = types[i].find("partial") != std::string::npos;
    made.result(name, is_partial ? made.exchange("end " + name, targets[i], way.parts[i].first)
                                 : targets[i]);
  }
  return made;
}

/// The bytes of all results of a program of exchanging().
template <class AnyBench>
auto all_results(AnyBench& bench, const ReshardPair& way) {
  std::vector<decltype(bytes_of(bench.result("x0")))> results;
  for (size_t i = 0; i < way.parts.size(); ++i)
    results.push_back(bytes_of(bench.result("x" + std::to_string(i))));
  return results;
}

/// The reshards that Reduction::kFast leaves to the transport when each of `members` processes has
/// a rank, and reshards that only resemble them: uneven parts are possible, but columns are not
/// dense.
inline std::vector<ReshardCase> ways_of_the_transport(int members) {
  std::vector<ReshardCase> all{
      {"dp=4", "f32[9] {partial sum: dp}", "f32[9]"},
      {"dp=4", "f32[300, 1001] {partial sum: dp}", "f32[300, 1001]"},
      {"dp=4", "f32[301, 70] {partial sum: dp}", "f32[301@dp, 70]"},
      {"dp=4", "f32[301@dp, 70]", "f32[301, 70]"},
      {"dp=4", "bool[5@dp]", "bool[5]"},
      {"dp=4", "f32[3@dp]", "f32[3]"},
      {"dp=4", "f32[7, 80] {partial sum: dp}", "f32[7, 80@dp]"},
      {"dp=2", "f32[301, 70] {partial sum: dp}", "f32[301, 70]"},
      {"dp=2", "f32[301, 70] {partial sum: dp}", "f32[301@dp, 70]"},
      {"dp=2", "f32[301@dp, 70]", "f32[301, 70]"},
      {"dp=2 tp=2", "f32[50@dp, 6] {partial sum: tp}", "f32[50@dp, 6]"},
      {"dp=2 tp=2", "f32[50@tp, 6] {partial sum: dp}", "f32[50@tp, 6]"},
  };
  std::erase_if(all, [members](const ReshardCase& way) {
    return mesh_of(way.mesh)->ranks().size() != static_cast<size_t>(members);
  });
  return all;
}

inline HandMade resharding(const ReshardCase& way) {
  HandMade made(mesh_of(way.mesh));
  const RegisterIndex source = feed_anything(made, "x", way.from);
  made.result("x", made.reshard("x", source, way.to));
  return made;
}

/// Compares sums of up to four numbers below 1 that were added in any order: three roundings of at
/// most 4 x 2^-24 each. Everything else is compared bit for bit.
inline void expect_same_sums(const Tensor& found, const Tensor& expected, const ReshardCase& way) {
  if (way.from.find("partial") == std::string::npos) {
    EXPECT_EQ(bytes_of(found), bytes_of(expected));
    return;
  }
  const auto a = found.values<float>(), b = expected.values<float>();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 2 * 3 * 4 * 0x1p-24F) << "element " << i;
}

}  // namespace tessera::testing_programs
