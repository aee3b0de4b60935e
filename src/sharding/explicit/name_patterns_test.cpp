// How names are written short, and read again.
#include "sharding/explicit/name_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAreArray;

std::vector<std::string> expanded(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns)
    for (std::string& name : names_of_pattern(pattern)) names.push_back(std::move(name));
  return names;
}

TEST(NamePatterns, WriteConsecutiveNumbersAsARange) {
  EXPECT_THAT(to_patterns({"blocks.0.up", "blocks.1.up", "blocks.2.up", "blocks.7.up"}),
              ElementsAre("blocks.{0..2,7}.up"));
}

TEST(NamePatterns, OfManyLayersAreThoseOfOne) {
  std::vector<std::string> names;
  for (int layer = 0; layer < 96; ++layer)
    for (const char* matrix : {"q", "k", "v"})
      names.push_back("blocks." + std::to_string(layer) + ".attn." + matrix + ".dot");
  EXPECT_THAT(to_patterns(names), ElementsAre("blocks.{0..95}.attn.{q,k,v}.dot"));
}

// q has no bias in layer 1: one pattern for both layers would name it.
TEST(NamePatterns, StandForNoOtherName) {
  const std::vector<std::string> names = {"0.q.weight", "0.q.bias",   "0.k.weight", "0.k.bias",
                                          "1.q.weight", "1.k.weight", "1.k.bias",   "sum_1",
                                          "sum_2",      "sum",        "a,b",        "x.007"};
  const std::vector<std::string> patterns = to_patterns(names);
  EXPECT_LT(patterns.size(), names.size());
  EXPECT_THAT(expanded(patterns), UnorderedElementsAreArray(names));
}

TEST(NamePatterns, OfOneNameIsTheName) {
  EXPECT_THAT(to_patterns({"head.dot"}), ElementsAre("head.dot"));
  EXPECT_THAT(names_of_pattern("head.dot"), ElementsAre("head.dot"));
}

TEST(NamePatterns, AreReadInTheOrderOfTheirAlternatives) {
  EXPECT_THAT(names_of_pattern("b{1,8..9}.{q,k}"),
              ElementsAre("b1.q", "b1.k", "b8.q", "b8.k", "b9.q", "b9.k"));
}

TEST(NamePatterns, RefuseBracesThatDoNotMatchAndRangesThatAreNone) {
  for (const char* pattern : {"a{0..2", "a}b", "a{b{c}}", "a{2..1}", "a{x..y}", "a{0..}"})
    EXPECT_THROW(names_of_pattern(pattern), UserError) << pattern;
  EXPECT_THROW(to_patterns({"a{b}"}), UserError);
}

}  // namespace
}  // namespace tessera
