// Recognizes the exchanges that are collectives of a library.
#include "runtime/exchange/collective.h"

#include <gtest/gtest.h>

#include "base/text/text.h"
#include "runtime/runtime/testing/programs.h"

namespace tessera {
namespace {

using testing_programs::mesh_of;

/// "all-reduce of 0 1: 9", "all-gather of 0 1 2: 2 2 1"; "none".
std::string found(const std::string& mesh_text, const std::string& from_text,
                  const std::string& to_text, Rank receiver) {
  const MeshPtr mesh = mesh_of(mesh_text);
  const DistType from = parse_dist_type(from_text, mesh), to = parse_dist_type(to_text, mesh);
  const auto collective = find_collective(from.type, {ReshardKind::kMessages, from.attr, to.attr},
                                          receiver, [](Rank rank) { return rank; });
  if (!collective) return "none";
  const auto numbers = [](const std::vector<int>& list) {
    std::vector<std::string> texts;
    for (int number : list) texts.push_back(std::to_string(number));
    return join(texts, " ");
  };
  const std::vector<std::string> names{"all-reduce", "reduce-scatter", "all-gather"};
  return names[static_cast<size_t>(collective->kind)] + " of " + numbers(collective->processes) +
         ": " + numbers(collective->counts);
}

TEST(Collective, SumsAndGathersOfDensePartsAreSome) {
  EXPECT_EQ(found("dp=3", "f32[9] {partial sum: dp}", "f32[9]", 1), "all-reduce of 0 1 2: 9");
  EXPECT_EQ(found("dp=3", "f32[5, 2] {partial sum: dp}", "f32[5@dp, 2]", 0),
            "reduce-scatter of 0 1 2: 4 4 2");
  EXPECT_EQ(found("dp=3", "f32[5@dp, 2]", "f32[5, 2]", 2), "all-gather of 0 1 2: 4 4 2");
  EXPECT_EQ(found("dp=3", "i32[4] {partial sum: dp}", "i32[4]", 0), "all-reduce of 0 1 2: 4");
}

TEST(Collective, AGroupIsThoseWhoDifferOnTheAxis) {
  EXPECT_EQ(found("dp=2 tp=2", "f32[8@dp] {partial sum: tp}", "f32[8@dp]", 3),
            "all-reduce of 2 3: 4");
  EXPECT_EQ(found("dp=2 tp=2", "f32[8@tp] {partial sum: dp}", "f32[8@tp]", 3),
            "all-reduce of 1 3: 4");
  EXPECT_EQ(found("dp=2 tp=2", "f32[8@tp]", "f32[8]", 0), "all-gather of 0 1: 4 4")
      << "not from the replicas";
}

TEST(Collective, WhoHasNothingToGiveStaysOutAndReceivesFromTheOthers) {
  EXPECT_EQ(found("dp=3", "f32[2@dp]", "f32[2]", 0), "all-gather of 0 1: 1 1");
  EXPECT_EQ(found("dp=3", "f32[2@dp]", "f32[2]", 2), "none");
}

TEST(Collective, OthersAreNone) {
  EXPECT_EQ(found("dp=2", "f32[4, 6@dp]", "f32[4, 6]", 0), "none") << "columns do not lie dense";
  EXPECT_EQ(found("dp=2", "f32[4, 6] {partial sum: dp}", "f32[4, 6@dp]", 0), "none");
  EXPECT_EQ(found("dp=2", "f32[4@dp, 6]", "f32[4, 6@dp]", 0), "none") << "an all-to-all";
  EXPECT_EQ(found("dp=2", "i32[4] {partial max: dp}", "i32[4]", 0), "none") << "no sum";
  EXPECT_EQ(found("dp=2", "f32[4]", "f32[4@dp]", 0), "none") << "no rank needs anything";
}

}  // namespace
}  // namespace tessera
