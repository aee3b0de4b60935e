#include "ir/ops/builder.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/error.h"

namespace tessera {
namespace {

using error_testing::message_of;

constexpr DType kF32 = DType::kF32;

TEST(Builder, NamesOpsByScopeAndKindAndMakesNamesUnique) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {kF32, {8}});
  {
    const auto block = builder.scope("block");
    const ValueId w = builder.variable("w", {kF32, {8}}, Initializer::normal(0, 0.02));
    const auto inner = builder.scope("ffn");
    builder.add(builder.mul(x, w), x, "sum");
    builder.mul(x, x);
  }
  builder.unary("exp", x);
  EXPECT_EQ(to_text(graph),
            "input x: f32[8]\n"
            "variable block.w: f32[8] = normal(0.0, 0.02)\n"
            "block.ffn.mul = mul(x, block.w): f32[8]\n"
            "block.ffn.sum = add(block.ffn.mul, x): f32[8]\n"
            "block.ffn.mul_1 = mul(x, x): f32[8]\n"
            "exp = exp(x): f32[8]\n");
}

TEST(Builder, WritesRoleAndOriginOnWhatFollows) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {kF32, {2}});
  builder.derive(Role::kBackward, {"y", "gradient"});
  builder.mul_scalar(x, 2, "y.grad.x");
  EXPECT_EQ(to_text(graph),
            "input x: f32[2]\n"
            "y.grad.x = mul_scalar(x) {value=2.0}: f32[2] @backward <- gradient y\n");
}

TEST(Builder, RefusesOperandsOfDifferentShapes) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", {kF32, {8, 16}}), b = builder.input("b", {kF32, {4, 16}});
  const auto scope = builder.scope("blocks.0");
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.add(a, b, "sum"); }),
            "add 'blocks.0.sum': a f32[8,16] does not fit b f32[4,16]\n"
            "  why: add works element by element on operands of one type and shape\n"
            "  fix: broadcast or reshape the operand that is smaller, or check the layer that "
            "produces it");
  EXPECT_TRUE(graph.ops().empty());
}

TEST(Builder, RefusesOperandsOfDifferentElementTypes) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", {kF32, {8}}), b = builder.input("b", {DType::kI32, {8}});
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.maximum(a, b); }),
            "max 'max': a f32[8] does not fit b i32[8]\n"
            "  why: max works element by element on operands of one type and shape\n"
            "  fix: cast one of them to the element type of the other");
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.unary("exp", b); }),
            "exp 'exp': x i32[8] has an element type that does not fit\n"
            "  why: exp takes f32 for x\n"
            "  fix: cast the operand first");
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.select(a, a, a); }),
            "select 'select': condition f32[8] has an element type that does not fit\n"
            "  why: select takes bool for condition\n"
            "  fix: cast the operand first");
}

TEST(Builder, RefusesAWrongNumberOfOperands) {
  Graph graph;
  Builder builder(graph);
  const ValueId a = builder.input("a", {kF32, {8}});
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.op("mul", {a}); }),
            "mul 'mul': 1 operand given: f32[8]\n"
            "  why: mul takes 2\n"
            "  fix: give exactly 2");
}

TEST(Builder, RefusesRandomBeginningsOfIntegers) {
  Graph graph;
  Builder builder(graph);
  EXPECT_EQ(
      message_of(ExitCode::kBadData,
                 [&] { builder.variable("count", {DType::kI32, {}}, Initializer::uniform(0, 9)); }),
      "variable 'count': uniform(0.0, 9.0) cannot fill i32[]\n"
      "  why: random numbers are f32\n"
      "  fix: begin it with a constant, or make it f32");
}

TEST(Builder, BroadcastsOverTheLeadingDimsThatAreMissing) {
  Graph graph;
  Builder builder(graph);
  const ValueId bias = builder.input("bias", {kF32, {4}});
  EXPECT_EQ(builder.broadcast_leading(bias, {4}), bias);
  const ValueId wide = builder.broadcast_leading(bias, {2, 3, 4});
  EXPECT_EQ(to_text(graph, graph.value(wide).producer),
            "broadcast = broadcast(bias) {dims=[2], shape=[2, 3, 4]}: f32[2,3,4]");
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.broadcast_leading(wide, {4}, "narrow"); }),
            "broadcast 'narrow': x f32[2,3,4] has more dims than [4]\n"
            "  why: broadcasting over leading dims adds dims and drops none\n"
            "  fix: reduce or reshape the operand first");
}

TEST(Builder, KeysRandomOpsByTheSeedAndTheirNames) {
  Graph graph;
  Builder builder(graph, 7);
  const ValueId step = builder.input("step", {DType::kI32, {}});
  const auto scope = builder.scope("drop");
  const ValueId first = builder.random_uniform(step, {3}),
                second = builder.random_uniform(step, {3});
  const auto key_of = [&](ValueId value) {
    return graph.op(graph.value(value).producer).attributes.integer("key");
  };
  EXPECT_EQ(key_of(first), static_cast<int64_t>(random_key(7, "drop.random_uniform")));
  EXPECT_EQ(key_of(second), static_cast<int64_t>(random_key(7, "drop.random_uniform_1")));
}

TEST(Builder, WritesTheAttributesOfEveryPrimitive) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {kF32, {2, 3}}),
                ids = builder.input("ids", {DType::kI32, {4}});
  builder.dot(x, x, "mk,nk->mn");
  builder.compare("lt", x, x);
  builder.cast(x, DType::kI32);
  builder.constant({kF32, {2}}, 0.5);
  builder.iota({DType::kI32, {2, 3}}, 1);
  builder.reshape(x, {6});
  builder.transpose(x, {1, 0});
  builder.slice(x, {0, 1}, {2, 3}, {1, 2});
  builder.pad(x, {1, 0}, {4, 3}, -1);
  builder.concat({x, x}, 1);
  builder.reduce(ReduceOp::kMax, x, {0});
  builder.gather(x, ids);
  builder.scatter_add(ids, builder.constant({kF32, {4, 3}}, 1, "rows"), 2);
  EXPECT_EQ(to_text(graph),
            "input x: f32[2,3]\n"
            "input ids: i32[4]\n"
            "dot_general = dot_general(x, x) {spec=\"mk,nk->mn\"}: f32[2,2]\n"
            "compare = compare(x, x) {relation=\"lt\"}: bool[2,3]\n"
            "cast = cast(x) {dtype=\"i32\"}: i32[2,3]\n"
            "constant = constant() {dtype=\"f32\", shape=[2], value=0.5}: f32[2]\n"
            "iota = iota() {dim=1, dtype=\"i32\", shape=[2, 3]}: i32[2,3]\n"
            "reshape = reshape(x) {shape=[6]}: f32[6]\n"
            "transpose = transpose(x) {permutation=[1, 0]}: f32[3,2]\n"
            "slice = slice(x) {limit=[2, 3], start=[0, 1], stride=[1, 2]}: f32[2,1]\n"
            "pad = pad(x) {low=[1, 0], shape=[4, 3], value=-1.0}: f32[4,3]\n"
            "concat = concat(x, x) {dim=1}: f32[2,6]\n"
            "reduce = reduce(x) {dims=[0], op=\"max\"}: f32[3]\n"
            "gather = gather(x, ids): f32[4,3]\n"
            "rows = constant() {dtype=\"f32\", shape=[4, 3], value=1.0}: f32[4,3]\n"
            "scatter_add = scatter_add(ids, rows) {rows=2}: f32[2,3]\n");
}

TEST(Builder, RefusesElementTypesWithoutKernels) {
  Graph graph;
  Builder builder(graph);
  const ValueId wide = builder.input("wide", {DType::kF64, {2}});
  const std::string rest =
      "  why: built-in operators compute with f32, f16, bf16, i32 and bool; tensors of other "
      "element "
      "types are stored and moved only\n"
      "  fix: use one of these types, or bring an operator of your own";
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.reshape(wide, {2, 1}, "r"); }),
            "reshape 'r': operand 0 is f64[2]\n" + rest);
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.constant({DType::kI64, {}}, 1, "c"); }),
            "constant 'c': result 0 is i64[]\n" + rest);
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { builder.unary("exp", wide, "e"); }),
            "exp 'e': x f64[2] has an element type that does not fit\n"
            "  why: exp takes f32 for x\n"
            "  fix: cast the operand first");
}

TEST(Builder, NamesBothResultsOfAttention) {
  Graph graph;
  Builder builder(graph);
  const ValueId q = builder.input("q", {kF32, {1, 2, 3, 4}}),
                k = builder.input("k", {kF32, {1, 5, 3, 4}});
  const Builder::Attention result = builder.attention(q, k, k, true, 0.5, "attn");
  EXPECT_EQ(graph.value(result.out).name, "attn");
  EXPECT_EQ(graph.value(result.log_sum_exp).name, "attn:1");
  EXPECT_EQ(to_text(graph, graph.value(result.out).producer),
            "attn = attention(q, k, k) {causal=true, scale=0.5}: f32[1,2,3,4], f32[1,3,2]");
}

}  // namespace
}  // namespace tessera
