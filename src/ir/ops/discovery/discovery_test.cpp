#include "ir/ops/discovery/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/testing/tensor_types.h"
#include "base/text/text.h"
#include "ir/ops/internal/discovery/discovery_parts.h"
#include "ir/ops/testing/operator_cases.h"

namespace tessera {
namespace {

using operator_testing::OperatorCase;
using ::testing::IsEmpty;
using Integers = std::vector<int64_t>;
using Restore = DiscoveredResult::Restore;

Discovery discover(const Operator& op, const std::vector<TensorType>& inputs,
                   const Attributes& attributes = {}) {
  return discover(op, OpView{"op", attributes, inputs, {}});
}
Discovery discover(std::string_view kind, const std::vector<TensorType>& inputs,
                   const Attributes& attributes = {}) {
  return discover(find_operator(kind), inputs, attributes);
}
std::string found(std::string_view kind, const std::vector<TensorType>& inputs,
                  const Attributes& attributes = {}) {
  return to_text(discover(kind, inputs, attributes));
}

// ---- the examples of EasyDist ----

TEST(Discovery, ATransposedDimJoinsWhereItWent) {
  EXPECT_EQ(found("transpose", {f32({64, 3072})}, {{"permutation", Integers{1, 0}}}),
            "[[1, 2]]; 1: join(1); 2: join(0)");
}

TEST(Discovery, AProductHasTwoDimsThatJoinAndOneThatIsASum) {
  EXPECT_EQ(found("dot_general", {f32({64, 3072}), f32({3072, 128})}, {{"spec", "mk,kn->mn"}}),
            "[[1, 2], [2, 3]]; 1: join(0); 2: sum; 3: join(1)");
}

TEST(Discovery, ADimIsCutPlainlyOrInChunks) {
  const ReferenceTensor tensor{f32({4}), {1, 1, 2, 2}};
  const auto part = [&](int64_t chunks, int64_t index) {
    const int64_t extent = 4 / chunks;
    return detail::cut(tensor, {0, 1, chunks}, extent, balanced_part(extent, 2, index)).values;
  };
  EXPECT_EQ(part(1, 0), (std::vector<double>{1, 1}));
  EXPECT_EQ(part(1, 1), (std::vector<double>{2, 2}));
  EXPECT_EQ(part(2, 0), (std::vector<double>{1, 2}));
  EXPECT_EQ(part(2, 1), (std::vector<double>{1, 2}));
}

// Channels x rows x columns = 3 x 32 x 32 become 3072 columns: a channel is a unit of 1024, and a
// row is 32 columns in each of three channels.
TEST(Discovery, AFlattenedDimIsCutInUnitsAndInChunks) {
  const Discovery flatten =
      discover("reshape", {f32({128, 3, 32, 32})}, {{"shape", Integers{128, 3072}}});
  EXPECT_EQ(to_text(flatten),
            "[[1, 2, 3, 4]]; 1: join(0); 2: join(1*1024); 3: join(1*32 in 3 chunks); 4: join(1 in "
            "96 chunks)");
  EXPECT_EQ(flatten.factors[0].extent, 128);
  const DiscoveredFactor& channels = flatten.factors[1];
  const auto columns = [&](int64_t part) {
    return balanced_part(channels.extent, 2, part).size() * channels.outputs[0].along.unit;
  };
  EXPECT_EQ(columns(0), 2048);
  EXPECT_EQ(columns(1), 1024);
}

// ---- further factors ----

TEST(Discovery, ExtentsThatFuseDimsAreCutBetweenUnits) {
  // Rows 0-2 of x are rows 0-1 of the result. Columns 0 and 2 of x hold the even elements, as
  // columns 0, 2 and 4 of the result do.
  EXPECT_EQ(found("reshape", {f32({6, 4})}, {{"shape", Integers{4, 6}}}),
            "[[1*3, 2 in 2 chunks]]; 1: join(0*2); 2: join(1 in 3 chunks)");
}

TEST(Discovery, HalvesThatAreJoinedGiveTwoChunks) {
  EXPECT_EQ(found("concat", {f32({6}), f32({6})}, {{"dim", int64_t{0}}}),
            "[[1], [1]]; 1: join(0 in 2 chunks)");
}

TEST(Discovery, EveryReductionIsToldFromTheOthers) {
  for (const char* op : {"sum", "max", "min", "prod"})
    EXPECT_EQ(found("reduce", {f32({5, 7})}, {{"op", op}, {"dims", Integers{1}}}),
              "[[1, 2]]; 1: join(0); 2: " + std::string(op));
  for (const char* op : {"any", "all"})
    EXPECT_EQ(found("reduce", {{DType::kBool, {5, 7}}}, {{"op", op}, {"dims", Integers{1}}}),
              "[[1, 2]]; 1: join(0); 2: " + std::string(op));
}

TEST(Discovery, AVocabularyIsDividedWhenIdsCountFromThePart) {
  EXPECT_EQ(found("gather", {f32({6, 3}), {DType::kI32, {5}}}),
            "[[1, 2], [3]]; 1: sum, integers counted from the part; 2: join(1); 3: join(0)");
}

TEST(Discovery, ADimOfTheResultAloneIsFoundByItsSizeAmongTheAttributes) {
  EXPECT_EQ(found("broadcast", {f32({5})}, {{"shape", Integers{3, 5}}, {"dims", Integers{1}}}),
            "[[1]]; 1: join(1); 2: join(0)");
}

TEST(Discovery, WhatMustKnowWhereItLiesIsNotFound) {
  // Rows repeat, columns count.
  EXPECT_EQ(found("iota", {}, {{"dtype", "f32"}, {"shape", Integers{5, 7}}, {"dim", int64_t{1}}}),
            "[]; 1: join(0)");
}

TEST(Discovery, WhatIsEmptyOrTooLargeIsNotTried) {
  EXPECT_EQ(discover("exp", {f32({0, 5})}).nothing_because,
            "an operand or result is empty, so that anything would seem to restore it");
  // There are 2048 x 2048 elements, and no dim can be smaller: the result's dim fuses both.
  EXPECT_EQ(
      discover("reshape", {f32({2048, 2049})}, {{"shape", Integers{2048 * 2049}}}).nothing_because,
      "it is too large to be tried, and its types do not allow smaller extents");
}

TEST(Discovery, LinearSetsAreFoundByAdding) {
  using Sets = std::vector<std::vector<int>>;
  const TensorType x = f32({5, 7});
  EXPECT_EQ(discover("add", {x, x}).linear, (Sets{{0, 1}}));
  EXPECT_EQ(discover("mul", {x, x}).linear, (Sets{{0}, {1}}));
  EXPECT_EQ(discover("div", {x, x}).linear, (Sets{{0}}));
  EXPECT_EQ(discover("select", {{DType::kBool, {5, 7}}, x, x}).linear, (Sets{{1, 2}}));
  // On whole numbers it would be linear.
  EXPECT_THAT(discover("floor", {x}).linear, IsEmpty());
}

// ---- operators that are not in the catalogue ----

std::vector<double> no_error(const ReferenceCall& call, int output) {
  return std::vector<double>(call.outputs[output].values.size(), 0.0);
}

/// A moving sum over the last dim: y_i = x_(i-1) + x_i + x_(i+1), where x is zero outside.
Operator moving_sum() {
  return {.name = "moving_sum",
          .infer = [](const OpView& op) { return std::vector{op.inputs[0]}; },
          .reference =
              [](const ReferenceCall& call) {
                const std::vector<double>& x = call.inputs[0]->values;
                const Shape& shape = call.inputs[0]->type.shape;
                const int64_t width = shape[shape.size() - 1];
                for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i)
                  for (int64_t j : {i - 1, i, i + 1})
                    if (j >= 0 && j / width == i / width && j < static_cast<int64_t>(x.size()))
                      call.outputs[0].values[i] += x[j];
              },
          .tolerance = no_error};
}

TEST(Discovery, ANeighbourhoodIsAHalo) {
  EXPECT_EQ(to_text(discover(moving_sum(), {f32({64, 256})})),
            "[[1, 2]]; 1: join(0); 2: join(1) with a halo of 1 before and 1 after");
}

/// A running sum over one dim: element i needs all elements before it, so no halo is wide enough.
Operator running_sum() {
  return {.name = "running_sum",
          .infer = [](const OpView& op) { return std::vector{op.inputs[0]}; },
          .reference =
              [](const ReferenceCall& call) {
                double sum = 0;
                for (size_t i = 0; i < call.inputs[0]->values.size(); ++i)
                  call.outputs[0].values[i] = sum += call.inputs[0]->values[i];
              },
          .tolerance = no_error};
}

TEST(Discovery, AHaloIsNotTakenForADependenceOnEverything) {
  for (int64_t extent : {2, 5, 8, 12, 4096})
    EXPECT_THAT(discover(running_sum(), {f32({extent})}).factors, IsEmpty()) << extent;
}

/// y_i = x_i + x_(i-20)^2.
Operator echo() {
  return {.name = "echo",
          .infer = [](const OpView& op) { return std::vector{op.inputs[0]}; },
          .reference =
              [](const ReferenceCall& call) {
                const std::vector<double>& x = call.inputs[0]->values;
                for (size_t i = 0; i < x.size(); ++i)
                  call.outputs[0].values[i] = x[i] + (i < 20 ? 0 : x[i - 20] * x[i - 20]);
              },
          .tolerance = no_error};
}

TEST(Discovery, WhatHoldsOnSmallExtentsIsConfirmedOnTheLargeOnes) {
  EXPECT_EQ(to_text(discover(echo(), {f32({19})})), "[[1]]; 1: join(0)");
  const Discovery large = discover(echo(), {f32({4096})});
  EXPECT_THAT(large.factors, IsEmpty());
  EXPECT_THAT(large.linear, IsEmpty());
}

TEST(Discovery, AnExtentOfManyDimsIsConfirmedOnASmallerOne) {
  const TensorType matrix = f32({65536, 65536});
  const Discovery product = discover("dot_general", {matrix, matrix}, {{"spec", "mk,kn->mn"}});
  EXPECT_EQ(to_text(product), "[[1, 2], [2, 3]]; 1: join(0); 2: sum; 3: join(1)");
  EXPECT_EQ(product.factors[0].extent, 65536);
}

/// y = a * tanh(b), where x = [a, b] along its last dim.
Operator gated() {
  return {.name = "gated",
          .infer =
              [](const OpView& op) {
                TensorType type = op.inputs[0];
                int64_t& width = type.shape[type.shape.size() - 1];
                if (width % 2 != 0)
                  throw UserError("gated: odd", "it takes two halves",
                                  "give an even number of columns");
                width /= 2;
                return std::vector{type};
              },
          .reference =
              [](const ReferenceCall& call) {
                const Shape& shape = call.outputs[0].type.shape;
                const auto width = static_cast<size_t>(shape[shape.size() - 1]);
                const std::vector<double>& x = call.inputs[0]->values;
                for (size_t i = 0; i < call.outputs[0].values.size(); ++i) {
                  const size_t a = i / width * 2 * width + i % width;
                  call.outputs[0].values[i] = x[a] * std::tanh(x[a + width]);
                }
              },
          .tolerance = no_error};
}

TEST(Discovery, AnOperandOfTwoHalvesIsCutInChunks) {
  EXPECT_EQ(to_text(discover(gated(), {f32({64, 24})})),
            "[[1, 2 in 2 chunks]]; 1: join(0); 2: join(1)");
}

/// The sum of a dim, of the elements and of their squares; and its largest element.
Operator moments() {
  return {.name = "moments",
          .infer =
              [](const OpView& op) { return std::vector<TensorType>(2, {op.inputs[0].dtype, {}}); },
          .reference =
              [](const ReferenceCall& call) {
                double largest = -1e300;
                for (double x : call.inputs[0]->values) {
                  call.outputs[0].values[0] += x;
                  largest = std::max(largest, x);
                }
                call.outputs[1].values[0] = largest;
              },
          .tolerance = [](const ReferenceCall&, int) { return std::vector<double>{0x1p-24}; }};
}

TEST(Discovery, EachResultHasAReductionOfItsOwn) {
  EXPECT_EQ(to_text(discover(moments(), {f32({12})})), "[[1]]; 1: sum, max");
}

// ---- rules ----

Operator without_rule(std::string_view kind) {
  Operator op = find_operator(kind);
  op.rule = nullptr;
  return op;
}

DiscoveredRule rule_for(const Operator& op, const std::vector<TensorType>& inputs,
                        const Attributes& attributes = {}) {
  return discover_rule(op, OpView{"op", attributes, inputs, {}});
}

TEST(DiscoveredRule, IsThatOfTheCatalogue) {
  EXPECT_EQ(to_text(rule_for(without_rule("dot_general"), {f32({64, 10}), f32({10, 50})},
                             {{"spec", "mk,kn->mn"}})
                        .rule),
            "([f1, f2], [f2, f3]) -> ([f1, f3]) {f2: reduction sum} {linear: 0; 1}");
  EXPECT_EQ(
      to_text(rule_for(without_rule("reshape"), {f32({32, 3, 64})}, {{"shape", Integers{32, 192}}})
                  .rule),
      "([f1, f2, f3]) -> ([f1, f2*64 or f3/3]) {linear: 0}");
}

TEST(DiscoveredRule, SaysWhatItLeavesWhole) {
  const DiscoveredRule rule = rule_for(moving_sum(), {f32({64, 256})});
  EXPECT_EQ(to_text(rule.rule), "([f1, _]) -> ([f1, _]) {linear: 0}");
  EXPECT_THAT(rule.left_whole,
              ::testing::ElementsAre("factor 2 of [[1, 2]]; 1: join(0); 2: join(1) with a halo of "
                                     "1 before and 1 after: its parts overlap, "
                                     "and their kernel would make what overlaps, too"));
  EXPECT_THAT(rule_for(moments(), {f32({12})}).left_whole[0],
              ::testing::HasSubstr("restored by different reductions"));
}

TEST(DiscoveredRule, HasChunks) {
  EXPECT_EQ(to_text(rule_for(gated(), {f32({64, 24})}).rule), "([f1, f2/2]) -> ([f1, f2])");
}

TEST(DiscoveredRule, LeavesWholeWhatTheKernelWouldNotDivide) {
  Operator counting = without_rule("exp");
  EXPECT_EQ(to_text(rule_for(counting, {f32({64})}).rule), "([f1]) -> ([f1])");
  // A kernel with the whole extent would run past the end of a part.
  counting.kernel = [](const OpView& op, std::span<const Split>) {
    return KernelCall{"count", {op.inputs[0].shape[0]}, {}, {}};
  };
  const DiscoveredRule rule = rule_for(counting, {f32({64})});
  EXPECT_EQ(to_text(rule.rule), "([_]) -> ([_])");
  EXPECT_THAT(rule.left_whole,
              ::testing::ElementsAre("factor 1 of [[1]]; 1: join(0): its kernel for a part is not "
                                     "that of an op as small as the part"));
}

// ---- every declared rule ----

std::string dim_text(int dim, int64_t unit, int64_t chunks) {
  return std::to_string(dim) + "*" + std::to_string(unit) +
         (chunks == 1 ? "" : "/" + std::to_string(chunks));
}

/// The dims that a factor divides, and how each result is restored: "[0*1, -] -> [join 0*1]".
std::string declared_text(const ShardingRule& rule, int factor) {
  const auto dim_of = [&](const OperandFactors& dims) -> std::string {
    for (size_t d = 0; d < dims.size(); ++d)
      if (const DimFactor* dim = find_factor(dims[d], factor))
        return dim_text(static_cast<int>(d), dim->unit, dim->chunks) +
               (dim->window ? "~" + to_text(*dim->window) : "");
    return {};
  };
  std::vector<std::string> in, out;
  for (const OperandFactors& dims : rule.inputs)
    in.push_back(dim_of(dims).empty() ? "-" : dim_of(dims));
  for (const OperandFactors& dims : rule.outputs)
    out.push_back(dim_of(dims).empty() ? std::string(to_text(rule.factors[factor].reduce))
                                       : "join " + dim_of(dims));
  return "[" + join(in, ", ") + "] -> [" + join(out, ", ") + "]";
}

std::string found_text(const DiscoveredFactor& factor) {
  std::vector<std::string> in, out;
  for (const DiscoveredDim& dim : factor.inputs)
    in.push_back(dim.dim < 0 ? "-" : dim_text(dim.dim, dim.unit, dim.chunks));
  for (const DiscoveredResult& result : factor.outputs)
    out.push_back(result.restore == Restore::kReduce
                      ? std::string(to_text(result.reduce))
                      : "join " +
                            dim_text(result.along.dim, result.along.unit, result.along.chunks));
  return "[" + join(in, ", ") + "] -> [" + join(out, ", ") + "]";
}

/// Factors that may be divided, by their effect, with their number in the rule. A dim of one
/// element is never divided.
std::map<std::string, int> declared_factors(const ShardingRule& rule) {
  std::map<std::string, int> texts;
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.kind != FactorKind::kWhole && factor.extent > 1) texts[declared_text(rule, f)] = f;
  }
  return texts;
}

bool is_plain(const DiscoveredFactor& factor) {
  return factor.halo_before + factor.halo_after == 0;
}

std::set<std::string> found_factors(const Discovery& discovery) {
  std::set<std::string> texts;
  for (const DiscoveredFactor& factor : discovery.factors)
    if (is_plain(factor)) texts.insert(found_text(factor));
  return texts;
}

/// Does the call of the kernel depend on the begin of a part of the factor?
bool kernel_knows_its_place(const Operator& op, const OpView& view, const ShardingRule& rule,
                            int factor) {
  std::vector<Split> splits;
  for (const Factor& each : rule.factors) splits.push_back({each.extent, 1, {}});
  splits[factor].axes = {{0, 2}};
  const std::vector<LocalInt> ints = op.kernel(view, splits).ints;
  return std::any_of(ints.begin(), ints.end(),
                     [](const LocalInt& value) { return value.at({0}) != value.at({1}); });
}

OpView view_of(const Operator& op, const OperatorCase& given) {
  OpView view{"op", given.attributes, given.inputs, {}};
  view.outputs = op.infer(view);
  return view;
}

/// More chunks than discovery tries.
constexpr int64_t kManyChunks = 8;

/// Factors that discovery does not search: windows, chunks at a position that an attribute gives, a
/// second factor of a dim of an operand. check_division compares all of these with execution of the
/// kernel on exactly these rows.
bool is_beyond_discovery(std::string_view kind, const ShardingRule& rule, int factor) {
  for (const auto* operands : {&rule.inputs, &rule.outputs})
    for (const OperandFactors& dims : *operands)
      for (const DimFactor& dim : dims) {
        const DimFactor* found = find_factor(dim, factor);
        if (found && (found->window || found->chunks > kManyChunks)) return true;
        if (found && found->chunks > 1 && (kind == "slice" || kind == "pad")) return true;
        if (found && found != &dim && operands == &rule.inputs) return true;
      }
  return false;
}

class EveryDeclaredRule : public ::testing::TestWithParam<OperatorCase> {
 protected:
  const OperatorCase& given() const { return GetParam(); }
  const Operator& op() const { return find_operator(given().kind); }
};

/// Operators whose kernels are given the position of their part, which execution of a reference
/// cannot discover.
const std::set<std::string> kKnowTheirPlace{"iota",           "random_uniform", "attention",
                                            "attention_grad", "dynamic_slice",  "dynamic_update",
                                            "gather_nd",      "scatter_nd",     "scatter_add_nd",
                                            "grouped_matmul", "grouped_outer"};

/// Convolutions: an attribute counts groups of channels. Discovery also tries an empty part, which
/// would have no group.
bool counts_groups(const OperatorCase& given, const Factor& factor) {
  return given.kind.starts_with("convolution") && factor.name == "g";
}

/// Kinds whose rule declares fewer factors than are possible, and the reason.
const std::map<std::string, std::string> kDivideLess{
    {"attention_grad",
     "keys stay whole: its forward op needs them all, so they are whole where both run"},
};

/// Channels inside each of several groups are in chunks; a convolution divides its groups instead.
bool is_inside_groups(const OperatorCase& given, const std::string& text) {
  return given.kind.starts_with("convolution") && given.attributes.integer("groups") > 1 &&
         text.find('/') != std::string::npos;
}

TEST_P(EveryDeclaredRule, DividesWhatExecutionShows) {
  const OpView view = view_of(op(), given());
  const ShardingRule rule = op().rule(view);
  const Discovery discovery = discover(op(), view);
  if (!discovery.nothing_because.empty()) {
    EXPECT_EQ(element_count(view.outputs[0].shape), 0) << given() << "\n"
                                                       << discovery.nothing_because;
    return;
  }
  const std::map<std::string, int> declared = declared_factors(rule);
  const std::set<std::string> found = found_factors(discovery);
  const std::string both =
      to_text(given()) + "\n  declared " + to_text(rule) + "\n  found    " + to_text(discovery);
  for (const auto& [text, factor] : declared) {
    if (found.contains(text) || is_beyond_discovery(given().kind, rule, factor)) continue;
    if (counts_groups(given(), rule.factors[factor])) continue;
    EXPECT_TRUE(kKnowTheirPlace.contains(given().kind) &&
                kernel_knows_its_place(op(), view, rule, factor))
        << "execution refutes " << text << "\n"
        << both;
  }
  for (const std::string& text : found)
    EXPECT_TRUE(declared.contains(text) || kDivideLess.contains(given().kind) ||
                is_inside_groups(given(), text))
        << "the rule says nothing of " << text << "\n"
        << both;
}

/// The reason why an op that is linear does not declare it.
std::string why_not_declared(const OperatorCase& given) {
  if (given.kind == "cast") return "its partial sums would change their element type on the way";
  if (given.kind == "reduce" && given.attributes.integers("dims").empty())
    return "a reduction of no dims is a copy";
  if (given.kind == "attention_grad")
    return "its last operand comes from the op after attention, which leaves a partial sum there "
           "to be added";
  return {};
}

TEST_P(EveryDeclaredRule, IsLinearWhereExecutionIs) {
  const OpView view = view_of(op(), given());
  const Discovery discovery = discover(op(), view);
  if (!discovery.nothing_because.empty()) return;
  const std::vector<std::vector<int>> declared = op().rule(view).linear;
  const auto has = [](const auto& sets, const auto& set) {
    return std::find(sets.begin(), sets.end(), set) != sets.end();
  };
  for (const std::vector<int>& set : declared) {
    // Booleans have no sums.
    const bool adds = std::all_of(set.begin(), set.end(),
                                  [&](int i) { return view.inputs[i].dtype != DType::kBool; });
    EXPECT_TRUE(!adds || has(discovery.linear, set))
        << given() << ": execution refutes linearity in " << ::testing::PrintToString(set);
  }
  for (const std::vector<int>& set : discovery.linear)
    EXPECT_TRUE(has(declared, set) || !why_not_declared(given()).empty())
        << given() << ": the rule says nothing of linearity in " << ::testing::PrintToString(set);
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryDeclaredRule,
                         ::testing::ValuesIn(operator_testing::operator_cases()),
                         [](const auto& given) {
                           return std::to_string(given.index) + "_" + given.param.kind;
                         });

TEST(EveryDeclaredRule, ThatClaimsTooMuchIsRefuted) {
  // A slice from the start that leaves the last columns out. Discovery would find that its operand
  // could be divided like its result, as if it were taken whole. As the first of two chunks it can.
  const OperatorCase given{
      .kind = "slice",
      .inputs = {f32({4, 6})},
      .attributes = {
          {"start", Integers{0, 0}}, {"limit", Integers{4, 3}}, {"stride", Integers{1, 1}}}};
  EXPECT_THAT(
      found_factors(discover(find_operator("slice"), view_of(find_operator("slice"), given))),
      ::testing::ElementsAre("[0*1] -> [join 0*1]", "[1*1/2] -> [join 1*1]"));
}

}  // namespace
}  // namespace tessera
