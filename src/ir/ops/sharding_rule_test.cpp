#include "ir/ops/sharding_rule.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

TEST(ShardingRule, PrintsItsReductionsAndItsLinearSets) {
  // The rule of a matrix product: k is contracted, and the product is linear in a alone and in b
  // alone.
  ShardingRule rule;
  rule.factors = {{"m", 4}, {"k", 6, FactorKind::kReduction}, {"n", 8}};
  rule.inputs = {{{0, 1}, {1, 1}}, {{1, 1}, {2, 1}}};
  rule.outputs = {{{0, 1}, {2, 1}}};
  rule.linear = {{0}, {1}};
  EXPECT_EQ(to_text(rule), "([m, k], [k, n]) -> ([m, n]) {k: reduction sum} {linear: 0; 1}");
}

TEST(ShardingRule, PrintsUnitsWholeDimsAndEveryKindOfFactor) {
  ShardingRule rule;
  rule.factors = {{"h", 12},
                  {"v", 50, FactorKind::kMaskedReduction},
                  {"r", 3, FactorKind::kReduction, ReduceOp::kMax},
                  {"w", 5, FactorKind::kWhole}};
  rule.inputs = {{{0, 64}, {}, {1, 1}}, {{2, 1}, {3, 1}}};
  rule.outputs = {{}};
  rule.linear = {{0, 1}};
  EXPECT_EQ(to_text(rule),
            "([h*64, _, v], [r, w]) -> ([]) {v: masked reduction sum, r: reduction max, w: whole} "
            "{linear: 0, 1}");
}

TEST(ShardingRule, OfNoOperandsPrintsEmptyLists) {
  EXPECT_EQ(to_text(ShardingRule{}), "() -> ()");
}

TEST(ShardingRule, FindsFactorsByName) {
  ShardingRule rule;
  rule.factors = {{"m", 4}, {"k", 6}};
  EXPECT_EQ(rule.find("k"), 1);
  EXPECT_EQ(rule.find("n"), -1);
}

TEST(ReduceOp, ReadsWhatItPrints) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd,
                      ReduceOp::kAny, ReduceOp::kAll})
    EXPECT_EQ(parse_reduce_op(to_text(op)), op);
}

TEST(ReduceOp, RefusesOtherWords) {
  try {
    parse_reduce_op("mean");
    FAIL() << "'mean' was accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "'mean' is not a reduction\n"
                 "  why: reductions are sum, max, min, prod, any and all\n"
                 "  fix: use one of these");
  }
}

}  // namespace
}  // namespace tessera
