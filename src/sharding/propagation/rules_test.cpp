#include "sharding/propagation/rules.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

/// An op f32[extents] -> f32[extents] of an operator.
struct Example {
  Operator definition;
  Attributes attributes;
  Shape extents{8};

  OpView view() const {
    return {"y", attributes, {{DType::kF32, extents}}, {{DType::kF32, extents}}, &definition};
  }
};

Example unruled() {
  Example example{find_operator("exp"), {}};
  example.definition.rule = nullptr;
  return example;
}

/// A lookup that counts its calls.
RuleCache counting(int& asked) {
  return RuleCache([&asked](std::string_view kind, const OpView& op) {
    ++asked;
    return catalogue_rule(kind, op);
  });
}

TEST(RuleCache, DiscoversOnceForEqualTypesAndAttributes) {
  int asked = 0;
  const RuleCache cache = counting(asked), copy = cache;
  Example example = unruled();
  EXPECT_EQ(to_text(cache("exp", example.view())), "([f1]) -> ([f1])");
  EXPECT_EQ(to_text(copy("exp", example.view())), "([f1]) -> ([f1])");
  EXPECT_EQ(asked, 1);
  example.extents = {8, 4};
  EXPECT_EQ(to_text(cache("exp", example.view())), "([f1, f2]) -> ([f1, f2])");
  example.attributes.set("note", true);
  cache("exp", example.view());
  EXPECT_EQ(asked, 3);
}

TEST(RuleCache, SharesTheRulesOfTheCatalogueAmongEqualOps) {
  const RuleCache cache(catalogue_rule);
  Example example{find_operator("exp"), {}};
  const RulePtr rule = cache.find("exp", example.view());
  EXPECT_EQ(to_text(*rule), "([d0]) -> ([d0])");
  EXPECT_EQ(cache.find("exp", example.view()), rule);
  example.extents = {4};
  EXPECT_NE(cache.find("exp", example.view()), rule);
}

TEST(RuleCache, TellsApartOperatorsOfOneName) {
  int asked = 0;
  const RuleCache cache = counting(asked);
  Example example = unruled();
  cache("exp", example.view());
  example.definition = find_operator("neg");
  example.definition.rule = nullptr;
  EXPECT_EQ(to_text(cache("exp", example.view())), "([f1]) -> ([f1]) {linear: 0}");
}

TEST(RuleCache, AsksForDeclaredRulesEachTime) {
  int asked = 0;
  const RuleCache cache = counting(asked);
  const Example example{find_operator("exp"), {}};
  EXPECT_EQ(to_text(cache("exp", example.view())), "([d0]) -> ([d0])");
  cache("exp", example.view());
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace tessera
