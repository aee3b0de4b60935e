#include "base/solver/contest_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/solver/testing/random_problems.h"
#include "base/testing/test_folder.h"

namespace tessera::solver {
namespace {

constexpr const char* kSmall = R"({"problem": {"name": "two nodes",
  "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 2], [3]], "usages": [[5, 6], [7]]},
  "edges": {"nodes": [[0, 1], [0]], "costs": [[10, 1000000000000000000], [100, 200]]},
  "usage_limit": 13}})";

std::string refused(const std::string& text) {
  try {
    parse_problem(text, "p.json");
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
    return error.what_happened() + " | " + error.why();
  }
  return "";
}

TEST(ContestFile, ReadsNodesEdgesAndTheLimit) {
  const Problem problem = parse_problem(kSmall, "p.json");
  EXPECT_EQ(problem.nodes(), 2);
  EXPECT_EQ(problem.edges(), 1);  // the edge of one node went into its costs: 1 + 100, 2 + 200
  EXPECT_EQ(problem.usage_limit(), 13);
  const Evaluation first = evaluate(problem, {0, 0});
  EXPECT_EQ(to_text(first.cost), "114");  // 101 + 3 + 10
  EXPECT_EQ(to_text(first.peak), "12");
  EXPECT_TRUE(evaluate(problem, {1, 0}).forbidden);
}

TEST(ContestFile, KeysMayComeInAnyOrderAndUnknownOnesArePassedOver) {
  const Problem problem = parse_problem(
      R"({"version": [1, {"a": "}"}], "problem": {"edges": {"costs": [], "nodes": []}, "more": )"
      R"(null, "nodes": {"usages": [[0]], "costs": [[4]], "intervals": [[0, 1]]}}})",
      "p.json");
  EXPECT_EQ(problem.nodes(), 1);
  EXPECT_EQ(problem.usage_limit(), std::nullopt);
}

TEST(ContestFile, NumbersMayBeWrittenAsOthersDo) {
  const Problem problem =
      parse_problem(R"({"problem": {"nodes": {"intervals": [[0, 1]], "costs": [[1e18, 2.0, )"
                    R"(9000000000000000000]], "usages": [[0, 0, 0]]}}})",
                    "p.json");
  EXPECT_EQ(problem.costs(problem.node(0))[0], kForbidden);
  EXPECT_EQ(problem.costs(problem.node(0))[1], 2);
  EXPECT_EQ(problem.costs(problem.node(0))[2], 9'000'000'000'000'000'000);
}

TEST(ContestFile, ReadsBackWhatItWrites) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Problem problem = random_problem(seed, 1, 8, 4);
    const std::string text = to_json(problem);
    EXPECT_EQ(to_json(parse_problem(text, "p.json")), text);
  }
}

TEST(ContestFile, MalformedTextIsRefusedWithItsPlace) {
  EXPECT_EQ(refused("[1]"),
            "'p.json' is not a problem: line 1, column 1 | an object is expected, and '[' found");
  EXPECT_EQ(refused("{\"problem\": {\n \"nodes\": {\"costs\": [[1, x]]}}}"),
            "'p.json' is not a problem: line 2, column 26 | a whole number is expected");
  EXPECT_EQ(refused("{\"problem\": {\"nodes\": {\"costs\": [[1.5]]}}}"),
            "'p.json' is not a problem: line 1, column 35 | this is not a whole number of 64 bits");
  EXPECT_EQ(refused("{\"problem\": {\"nodes\": {\"costs\": [[1"),
            "'p.json' is not a problem: line 1, column 36 | the text ends where a comma or the end "
            "of a list is expected");
  EXPECT_EQ(refused("{\"nodes\": {}}"),
            "'p.json' is not a problem: line 1, column 14 | there is no key \"problem\"");
  EXPECT_EQ(
      refused(std::string(kSmall) + "}"),
      "'p.json' is not a problem: line 4, column 22 | something follows the end of the problem");
}

TEST(ContestFile, NumbersThatDoNotFitAreRefusedWithTheirNodeOrEdge) {
  EXPECT_EQ(
      refused(
          R"({"problem": {"nodes": {"intervals": [[0, 1]], "costs": [[1], [2]], "usages": [[1], )"
          R"([2]]}}})"),
      "'p.json' is not a problem: nodes.intervals | nodes.intervals has 1 entries, nodes.costs has "
      "2");
  EXPECT_EQ(
      refused(R"({"problem": {"nodes": {"intervals": [[0]], "costs": [[1]], "usages": [[1]]}}})"),
      "'p.json' is not a problem: nodes.intervals[0] | it has 1 numbers");
  EXPECT_EQ(
      refused(R"({"problem": {"nodes": {"intervals": [[0, 1]], "costs": [[1]], "usages": [[1]]}, )"
              R"("edges": {"nodes": [[0, 4]], "costs": [[1]]}}})"),
      "'p.json' is not a problem: edges.nodes[0] | it names node 4 of 1");
}

TEST(ContestFile, ReadsCompressedFilesAndRefusesThoseCutOff) {
  const TestFolder folder;
  const std::filesystem::path path = folder / "small.json.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, kSmall, static_cast<unsigned>(std::string_view(kSmall).size()));
  gzclose(file);
  EXPECT_EQ(read_problem(path).nodes(), 2);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_THAT([&] { read_problem(path); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("cannot decompress")));
  EXPECT_THAT([&] { read_problem(folder / "absent.json"); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("cannot read")));
}

}  // namespace
}  // namespace tessera::solver
