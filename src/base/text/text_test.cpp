#include "base/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;

TEST(Text, JoinPutsTheSeparatorBetween) {
  EXPECT_EQ(join({"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"", ""}, "-"), "-");
}

TEST(Text, AnExcerptHasTheBeginOfALongText) {
  EXPECT_EQ(excerpt("short"), "short");
  EXPECT_EQ(excerpt("abcdef", 4), "abcd... (6 bytes)");
  EXPECT_EQ(excerpt("abc\xc3\xa9", 4), "abc... (5 bytes)");
  EXPECT_EQ(excerpt(std::string(5'000'000, 'x')).size(), 100 + 21);
}

TEST(Text, SplitOutsideBracketsKeepsWhatBracketsHoldTogether) {
  EXPECT_THAT(split_outside_brackets("(4,1), (1,(2,3)),x", ','),
              ElementsAre("(4,1)", "(1,(2,3))", "x"));
  EXPECT_THAT(split_outside_brackets(" a ,, b", ','), ElementsAre("a", "b"));
  EXPECT_THAT(split_outside_brackets("", ','), ElementsAre());
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_THAT(split_text("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split_text(",a,", ','), ElementsAre("", "a", ""));
  EXPECT_THAT(split_text("", ','), ElementsAre(""));
}

TEST(Text, TrimTakesSpacesFromBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim("a"), "a");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Matches, WithoutAStarOnlyTheNameItself) {
  EXPECT_TRUE(matches("blocks.0.ffn", "blocks.0.ffn"));
  EXPECT_FALSE(matches("blocks.0.ffn", "blocks.0.ffn.up"));
  EXPECT_FALSE(matches("blocks.0.ffn", "my.blocks.0.ffn"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Matches, AStarStandsForAnyRunOfLettersDotsToo) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "blocks.0.attn.q"));
  EXPECT_TRUE(matches("blocks.*.weight", "blocks.0.attn.q.weight"));
  EXPECT_TRUE(matches("*.weight", "a.weight.weight"));  // the star has to backtrack
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(matches("a**c", "abc"));
  EXPECT_FALSE(matches("blocks.*.weight", "blocks.weight"));
  EXPECT_FALSE(matches("a*b*c", "aXcYb"));
  EXPECT_FALSE(matches("*.bias", "a.bias.grad"));
}

TEST(Matches, BracesOfferChoices) {
  const std::string pattern = "blocks.*.attn.{q,k}.weight";
  EXPECT_TRUE(matches(pattern, "blocks.0.attn.q.weight"));
  EXPECT_TRUE(matches(pattern, "blocks.11.attn.k.weight"));
  EXPECT_FALSE(matches(pattern, "blocks.0.attn.v.weight"));
  EXPECT_TRUE(matches("{a,b}.{c,d}", "b.c"));
  EXPECT_FALSE(matches("{a,b}.{c,d}", "c.b"));
  EXPECT_TRUE(matches("ffn{,.bias}", "ffn"));
  EXPECT_TRUE(matches("{*.up,*.down}.weight", "blocks.0.down.weight"));
}

TEST(Text, BracesMayHaveRangesOfNumbers) {
  EXPECT_TRUE(matches("blocks.{0..5}.*", "blocks.5.attn"));
  EXPECT_FALSE(matches("blocks.{0..5}.*", "blocks.6.attn"));
  EXPECT_FALSE(matches("blocks.{0..5}.*", "blocks.05.attn"));
  EXPECT_TRUE(matches("{a,b}{1,3..4,10..11}", "b11"));
  EXPECT_TRUE(matches("x{7..7}", "x7"));
}

TEST(Text, RefusesRangesThatAreNone) {
  for (const char* pattern :
       {"x{5..0}", "x{a..b}", "x{..3}", "x{0..}", "x{0..99999999}", "x{0..2000}{0..2000}"})
    EXPECT_THROW(matches(pattern, "x1"), UserError) << pattern;
}

TEST(Matches, ABraceThatIsNotClosedIsALetter) {
  EXPECT_TRUE(matches("a{b", "a{b"));
  EXPECT_FALSE(matches("a{b", "ab"));
}

TEST(DoubleText, IsShortAndAlwaysHasAPointOrAnExponent) {
  EXPECT_EQ(double_text(3), "3.0");
  EXPECT_EQ(double_text(0), "0.0");
  EXPECT_EQ(double_text(-0.0), "-0.0");
  EXPECT_EQ(double_text(0.1), "0.1");
  EXPECT_EQ(double_text(1e-5), "1e-05");
  EXPECT_EQ(double_text(1e300), "1e+300");
  EXPECT_EQ(double_text(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(double_text(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(DoubleText, ReadsBackAsTheSameDouble) {
  std::vector<double> values = {
      std::numeric_limits<double>::min(), std::numeric_limits<double>::denorm_min(),
      std::numeric_limits<double>::max(), 1.0 / 3.0, 123456789012345678.0};
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i)
    values.push_back(
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 2000) - 1030));
  for (double value : values) EXPECT_EQ(std::strtod(double_text(value).c_str(), nullptr), value);
}

}  // namespace
}  // namespace tessera
