#include "ir/ops/parameter_roles.h"

#include <gtest/gtest.h>

#include "ir/ops/builder.h"

namespace tessera {
namespace {

class ParameterRoles : public testing::Test {
 protected:
  ValueId variable(const char* name, const Shape& shape) {
    return builder.variable(name, {DType::kF32, shape}, Initializer::constant(0));
  }
  ValueId input(const char* name, const Shape& shape, DType dtype = DType::kF32) {
    return graph.add_input(name, {dtype, shape});
  }
  std::optional<int> inputs_of(ValueId value) { return input_dims_of_weight(graph, value); }

  Graph graph;
  Builder builder{graph, 1};
};

TEST_F(ParameterRoles, AWeightHasItsInputsFirst) {
  const ValueId up = variable("up", {8, 32}), heads = variable("heads", {8, 2, 4}),
                out = variable("out", {2, 4, 8});
  const ValueId x = input("x", {3, 8}), h = input("h", {3, 2, 4});
  builder.dot(x, up, "bi,io->bo");
  builder.dot(x, heads, "bi,ihd->bhd");
  builder.dot(h, out, "bhd,hdo->bo");
  EXPECT_EQ(inputs_of(up), 1);
  EXPECT_EQ(inputs_of(heads), 1);
  EXPECT_EQ(inputs_of(out), 2);
}

TEST_F(ParameterRoles, AMatrixThatIsLookedUpOrReadBothWaysIsNoWeightOfALinearLayer) {
  const ValueId x = input("x", {3, 8});
  const ValueId tied = variable("tied", {8, 8}), reversed = variable("reversed", {5, 8});
  builder.gather(tied, input("ids", {3}, DType::kI32));
  builder.dot(x, tied, "bi,io->bo");
  builder.dot(x, reversed, "bi,oi->bo");
  EXPECT_EQ(inputs_of(tied), std::nullopt);
  EXPECT_EQ(inputs_of(reversed), std::nullopt);
  EXPECT_EQ(inputs_of(variable("unused", {2, 2})), std::nullopt);
}

TEST_F(ParameterRoles, ABiasIsAddedToAProductWhateverItsRank) {
  const ValueId x = input("x", {3, 8});
  const ValueId bias = variable("anything", {2, 4}), position = variable("position", {8});
  const ValueId product = builder.dot(x, variable("w", {8, 2, 4}), "bi,ihd->bhd");
  builder.add(product, builder.broadcast(bias, {3, 2, 4}, {1, 2}));
  builder.add(x, builder.broadcast(position, {3, 8}, {1}));
  EXPECT_TRUE(is_bias(graph, bias));
  EXPECT_FALSE(is_bias(graph, position));
}

TEST_F(ParameterRoles, AreThoseOfTheReadersOfACast) {
  const ValueId x = input("x", {3, 8}, DType::kBF16);
  const ValueId w = variable("w", {8, 2, 4}), bias = variable("bias", {2, 4});
  const ValueId product = builder.dot(x, builder.cast(w, DType::kBF16), "bi,ihd->bhd");
  builder.add(product, builder.broadcast(builder.cast(bias, DType::kBF16), {3, 2, 4}, {1, 2}));
  EXPECT_EQ(inputs_of(w), 1);
  EXPECT_TRUE(is_bias(graph, bias));
}

TEST_F(ParameterRoles, WhatIsAlsoMultipliedIsNoBias) {
  const ValueId x = input("x", {3, 8});
  const ValueId both = variable("both", {3, 8});
  const ValueId product = builder.dot(x, variable("w", {8, 8}), "bi,io->bo");
  builder.mul(builder.add(product, both), both);
  EXPECT_FALSE(is_bias(graph, both));
}

}  // namespace
}  // namespace tessera
