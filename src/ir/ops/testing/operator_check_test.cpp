// Checks every operator of the catalogue by its definition, and tests the checks themselves on
// operators that are wrong.
#include "ir/ops/testing/operator_check.h"

#include <set>

#include "ir/ops/builder.h"
#include "ir/ops/testing/operator_cases.h"

namespace tessera::operator_testing {
namespace {

class EveryOperator : public ::testing::TestWithParam<OperatorCase> {
 protected:
  const OperatorCase& given() const { return GetParam(); }
  const Operator& op() const { return find_operator(given().kind); }
};

TEST_P(EveryOperator, HasARuleThatFitsItsOperands) {
  EXPECT_TRUE(check_rule(op(), given()));
}
TEST_P(EveryOperator, HasAKernelThatIsItsReference) {
  EXPECT_TRUE(check_kernel(op(), given()));
}
TEST_P(EveryOperator, HasAGradientThatIsItsDifferenceQuotient) {
  EXPECT_TRUE(check_gradient(op(), given()));
}
TEST_P(EveryOperator, GivesTheSerialResultUnderEveryDivision) {
  EXPECT_TRUE(check_division(op(), given()));
}
TEST_P(EveryOperator, HasTheWorkAndTheWorkspaceOfItsCalls) {
  EXPECT_TRUE(check_work(op(), given()));
}
TEST_P(EveryOperator, IsLinearInItsLinearSets) {
  EXPECT_TRUE(check_linearity(op(), given()));
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryOperator, ::testing::ValuesIn(operator_cases()),
                         [](const auto& given) {
                           return std::to_string(given.index) + "_" + given.param.kind;
                         });

/// Of f16 and bf16 the gradient is checked by its types alone: differences in 16 bits have no
/// digits.
class NarrowOperator : public EveryOperator {};

TEST_P(NarrowOperator, HasARuleThatFitsItsOperands) {
  EXPECT_TRUE(check_rule(op(), given()));
}
TEST_P(NarrowOperator, HasAKernelThatIsItsReferenceRounded) {
  EXPECT_TRUE(check_kernel(op(), given()));
}
TEST_P(NarrowOperator, GivesTheSerialResultUnderEveryDivision) {
  EXPECT_TRUE(check_division(op(), given()));
}
TEST_P(NarrowOperator, HasTheWorkAndTheWorkspaceOfItsCalls) {
  EXPECT_TRUE(check_work(op(), given()));
}
TEST_P(NarrowOperator, IsLinearInItsLinearSets) {
  EXPECT_TRUE(check_linearity(op(), given()));
}
TEST_P(NarrowOperator, HasGradientsOfTheTypesOfItsOperands) {
  Graph graph;
  Builder builder(graph);
  std::vector<ValueId> operands;
  for (const TensorType& type : given().inputs) operands.push_back(builder.input("x", type));
  const std::vector<ValueId> results = builder.op(given().kind, operands, given().attributes, "y");
  if (!op().gradient || !is_float(builder.type(results[0]).dtype)) return;
  const Op forward = graph.ops().back();
  std::vector<std::optional<ValueId>> flow(results.size());
  flow[0] = builder.input("flow", builder.type(results[0]));
  std::vector<bool> wanted;
  for (const TensorType& type : given().inputs) wanted.push_back(is_float(type.dtype));
  const auto gradients = op().gradient(builder, {graph, forward, flow, wanted});
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i] || !wanted[i]) continue;
    EXPECT_EQ(builder.type(*gradients[i]), given().inputs[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, NarrowOperator, ::testing::ValuesIn(narrow_operator_cases()),
                         [](const auto& given) {
                           return std::to_string(given.index) + "_" + given.param.kind;
                         });

class LargeOperator : public EveryOperator {};

TEST_P(LargeOperator, HasAKernelThatIsItsReference) {
  EXPECT_TRUE(check_kernel(op(), given()));
}
TEST_P(LargeOperator, GivesTheSerialResultUnderEveryDivision) {
  EXPECT_TRUE(check_division(op(), given()));
}
TEST_P(LargeOperator, HasTheWorkAndTheWorkspaceOfItsCalls) {
  EXPECT_TRUE(check_work(op(), given()));
}

INSTANTIATE_TEST_SUITE_P(Cases, LargeOperator, ::testing::ValuesIn(large_operator_cases()),
                         [](const auto& given) {
                           return std::to_string(given.index) + "_" + given.param.kind;
                         });

TEST(OperatorCases, HoldEveryOperatorOfTheCatalogue) {
  std::set<std::string_view> missing;
  for (const Operator* op : all_operators()) missing.insert(op->name);
  const std::vector<OperatorCase> cases = operator_cases();
  for (const OperatorCase& given : cases) missing.erase(given.kind);
  EXPECT_THAT(missing, ::testing::IsEmpty());
}

const OperatorCase kProduct{.kind = "dot_general",
                            .inputs = {{DType::kF32, {5, 7}}, {DType::kF32, {7, 3}}},
                            .attributes = {{"spec", "mk,kn->mn"}}};

TEST(OperatorCheck, FindsARuleWithAWrongExtent) {
  Operator broken = find_operator("dot_general");
  broken.rule = [](const OpView& op) {
    ShardingRule rule = find_operator("dot_general").rule(op);
    rule.factors[0].extent = 4;
    return rule;
  };
  EXPECT_FALSE(check_rule(broken, kProduct));
}

TEST(OperatorCheck, FindsASumTakenForAParallelFactor) {
  Operator broken = find_operator("dot_general");
  broken.rule = [](const OpView& op) {
    ShardingRule rule = find_operator("dot_general").rule(op);
    rule.factors[rule.find("k")].kind = FactorKind::kParallel;
    return rule;
  };
  EXPECT_FALSE(check_rule(broken, kProduct));
}

TEST(OperatorCheck, FindsAWrongReduction) {
  Operator broken = find_operator("dot_general");
  broken.rule = [](const OpView& op) {
    ShardingRule rule = find_operator("dot_general").rule(op);
    rule.factors[rule.find("k")].reduce = ReduceOp::kMax;
    return rule;
  };
  EXPECT_FALSE(check_division(broken, kProduct));
}

TEST(OperatorCheck, FindsAKernelThatForgetsWhereItsPartBegins) {
  const OperatorCase given{
      .kind = "iota",
      .inputs = {},
      .attributes = {{"dtype", "i32"}, {"shape", std::vector<int64_t>{5}}, {"dim", int64_t{0}}},
      .bitwise = true};
  Operator broken = find_operator("iota");
  broken.kernel = [](const OpView&, std::span<const Split>) {
    return KernelCall{"iota", {0, 0}, {}, {}};
  };
  EXPECT_TRUE(check_kernel(broken, given));
  EXPECT_FALSE(check_division(broken, given));
}

TEST(OperatorCheck, FindsAKernelThatComputesSomethingElse) {
  Operator broken = find_operator("dot_general");
  broken.reference = [](const ReferenceCall& call) {
    find_operator("dot_general").reference(call);
    // An error of one part in 2^16 is far above what f32 explains for seven terms.
    for (double& value : call.outputs[0].values) value *= 1 + 0x1p-16;
  };
  EXPECT_FALSE(check_kernel(broken, kProduct));
}

TEST(OperatorCheck, FindsAGradientThatIsSlightlyWrong) {
  Operator broken = find_operator("dot_general");
  broken.gradient = [](Builder& builder, const GradientCall& call) {
    std::vector<std::optional<ValueId>> gradients =
        find_operator("dot_general").gradient(builder, call);
    gradients[1] = builder.mul_scalar(*gradients[1], 1 + 0x1p-20);
    return gradients;
  };
  EXPECT_FALSE(check_gradient(broken, kProduct));
}

TEST(OperatorCheck, FindsAClaimOfLinearityThatIsFalse) {
  Operator broken = find_operator("dot_general");
  broken.rule = [](const OpView& op) {
    ShardingRule rule = find_operator("dot_general").rule(op);
    rule.linear = {{0, 1}};
    return rule;
  };
  EXPECT_FALSE(check_linearity(broken, kProduct));
}

}  // namespace
}  // namespace tessera::operator_testing
