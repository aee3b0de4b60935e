#include "tools/fuzz/fuzz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <set>

#include "base/error.h"
#include "ir/ops/operator.h"
#include "tools/fuzz/internal/shrink.h"

namespace tessera::fuzz {
namespace {

using testing::Contains;
using testing::Ge;
using testing::IsSupersetOf;
using testing::Pair;

// The invariant of the project: placements do not change results. Each case runs forward, often
// backward and an update, twice, on 2 to 8 ranks; it takes some 5 milliseconds on two cores.
TEST(Fuzz, TwoThousandRandomProgramsComputeWhatTheSerialProgramComputes) {
  std::string failures;
  FuzzOptions options;
  options.cases = 2000;
  options.on_failure = [&](const FuzzFinding& finding) { failures += to_text(finding) + "\n"; };
  std::set<ReshardKind> kinds;
  options.faults.tamper = [&](TaskGraph& graph) {  // observes, and plants nothing
    for (const Task& task : graph.tasks)
      for (const ExchangePart& part : task.parts) kinds.insert(part.exchange.kind);
  };
  const FuzzReport report = run_cases(options);
  EXPECT_EQ(failures, "");
  EXPECT_EQ(report.total.cases, 2000);
  EXPECT_THAT(report.total.exact_cases,
              testing::AllOf(testing::Ge(800), testing::Le(1200)));  // half of them
  for (const Operator* op : all_operators())
    EXPECT_THAT(report.operators, Contains(Pair(std::string(op->name), Ge(20))));
  for (const char* kind : {"while", "if"})
    EXPECT_THAT(report.operators, Contains(Pair(kind, Ge(100))));
  EXPECT_GE(report.total.micro_batched_cases, 100);
  EXPECT_GE(report.total.chunked_cases, 20);
  EXPECT_GE(report.total.combined_cases, 200);
  EXPECT_THAT(kinds, IsSupersetOf({ReshardKind::kSlice, ReshardKind::kAllGather,
                                   ReshardKind::kReduceScatter, ReshardKind::kAllReduce,
                                   ReshardKind::kAllToAll, ReshardKind::kMessages}));
}

TEST(FuzzCase, ASeedAlwaysMakesTheSameCase) {
  EXPECT_EQ(to_text(random_case(7)), to_text(random_case(7)));
  EXPECT_NE(to_text(random_case(7)), to_text(random_case(8)));
}

TEST(FuzzCase, SomeAxesHaveWeights) {
  int weighted = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed)
    for (const NamedMesh& named : random_case(seed).meshes) weighted += named.mesh->is_weighted();
  EXPECT_THAT(weighted, testing::AllOf(Ge(30), testing::Le(100)));
}

TEST(FuzzCase, TheTextFormReadsBack) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string text = to_text(random_case(seed));
    EXPECT_EQ(to_text(parse_case(text)), text);
  }
}

TEST(FuzzCase, AMalformedLineIsNamed) {
  try {
    parse_case("seed 3\nmash x=2\n");
    FAIL() << "it was read";
  } catch (const UserError& error) {
    EXPECT_EQ(error.what_happened(), "the case has a malformed line: mash x=2");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
  }
}

/// The exit code and the message that refuse a case with these lines after its first ones.
std::string refusal_of(const std::string& lines, const std::string& graph) {
  try {
    check_case(parse_case("seed 3\nmode exact\n" + lines + "graph\n" + graph));
  } catch (const UserError& error) {
    return std::to_string(static_cast<int>(error.exit_code())) + " " + error.what_happened();
  }
  return "";
}

TEST(FuzzCase, OneThatIsNoneIsRefusedBeforeItRuns) {
  const std::string mesh = "mesh all x=2 at 0\n", input = "input a: f32[4]\n";
  using testing::StartsWith;
  EXPECT_EQ(refusal_of(mesh, input + "y = neg(a): f32[4]\n"), "");
  EXPECT_THAT(refusal_of(mesh, input + "y = neg(a): f32[3]\n"),
              StartsWith("65 the case has an op with other types"));
  EXPECT_THAT(refusal_of(mesh, input + "y = compare(a, a) {relation=7}: bool[4]\n"),
              StartsWith("65 the case has an op that is malformed"));
  EXPECT_THAT(refusal_of(mesh, input + "y = compare(a, a) {relation=\"lt\"}: bool[00]\n"),
              StartsWith("65 "));
  EXPECT_THAT(refusal_of(mesh, "input a: f32[2147483648,4]\n"),
              StartsWith("4 the case does not fit into memory"));
  EXPECT_THAT(refusal_of(mesh + "steps -1\n", input), StartsWith("65 the case has steps -1"));
  EXPECT_THAT(refusal_of("mesh all x=2 at 2147483647\n", input), StartsWith("65 "));
  EXPECT_THAT(refusal_of(mesh + "fill a real nan 1\n", input), StartsWith("65 the case fills 'a'"));
  const std::string quoted = refusal_of("mesh " + std::string(5'000'000, 'x') + "\n", input);
  EXPECT_THAT(quoted, StartsWith("65 the case has a malformed line"));
  EXPECT_LT(quoted.size(), 300);
}

TEST(FuzzCase, EveryRandomOneIsACase) {
  for (uint64_t seed = 1; seed <= 50; ++seed)
    EXPECT_NO_THROW(check_case(random_case(seed))) << seed;
}

TEST(FuzzCase, DataDependsOnTheSeedTheNameAndTheStepAlone) {
  FuzzCase one =
      parse_case("seed 5\nmesh all x=2 at 0\nfill a whole 0 9\ngraph\ninput a: f32[64]\n");
  FuzzCase two = parse_case(
      "seed 5\nmesh all x=3 at 0\nfill a whole 0 9\ngraph\ninput b: f32[2]\ninput a: f32[64]\n");
  const auto values = [](const FuzzCase& given, int64_t step) {
    return to_reference(sampled(given, "a", {DType::kF32, {64}}, step)).values;
  };
  EXPECT_EQ(values(one, 0), values(two, 0));
  EXPECT_NE(values(one, 0), values(one, 1));
}

/// One product of 7 terms of numbers up to `most`.
std::string product_case(const std::string& largest) {
  return "seed 1\nmode exact\nsteps 1\nmesh all x=2 at 0\nfill a whole " + largest + " " + largest +
         "\nfill b whole " + largest + " " + largest +
         "\nmark tensor a P(None, \"x\")\ngraph\ninput a: f32[2,7]\ninput b: f32[7,3]\ny = "
         "dot_general(a, b) {spec=\"mk,kn->mn\"}: "
         "f32[2,3]\n";
}

TEST(ExactSubset, EndsWhereASumMayReachTwoToThe24) {
  // 7 * 1548^2 = 16774128 < 16777216.
  EXPECT_TRUE(in_exact_subset(parse_case(product_case("1548"))));
  EXPECT_FALSE(in_exact_subset(parse_case(product_case("1549"))));  // 7 * 1549^2 = 16795807
}

TEST(ExactSubset, CountsTheAddendsThatALinearOpMayPassOn) {
  // y is a sum of 2 partial values on the axis, each up to 7 * 1500^2 / 2. It stays exact, but
  // z = y - y, which is 0, may add up twice as much.
  const std::string text = product_case("1500") + "z = sub(y, y): f32[2,3]\n";
  EXPECT_FALSE(in_exact_subset(parse_case(text)));  // 2 * 7 * 1500^2 = 31500000
}

TEST(ExactSubset, HoldsWholeNumbersOnly) {
  const std::string text =
      "seed 1\nmode exact\nmesh all x=2 at 0\nfill a whole 1 1\ngraph\ninput a: f32[2]\ny = "
      "mul_scalar(a) {value=0.5}: f32[2]\n";
  EXPECT_FALSE(in_exact_subset(parse_case(text)));
}

// ---- faults that are planted, to be found ----

using Break = void (*)(std::string_view kind, const OpView& op, ShardingRule& rule);

struct BrokenRule {
  const char* name;
  Break apply;
};
void PrintTo(const BrokenRule& broken, std::ostream* stream) {
  *stream << broken.name;
}

CaseFaults with_rule(Break apply) {
  CaseFaults faults;
  faults.check_placements = false;
  faults.rules = [apply](std::string_view kind, const OpView& op) {
    ShardingRule rule = catalogue_rule(kind, op);
    apply(kind, op, rule);
    return rule;
  };
  return faults;
}

void make_whole_parallel(ShardingRule& rule) {
  for (Factor& factor : rule.factors)
    if (factor.kind == FactorKind::kWhole) factor.kind = FactorKind::kParallel;
}

void move_windows(ShardingRule& rule, int64_t before, int64_t after) {
  for (OperandFactors& operand : rule.inputs)
    for (DimFactor& dim : operand) {
      if (!dim.window) continue;
      dim.window->before += before;
      dim.window->after += after;
    }
}

void reduce_as(ShardingRule& rule, ReduceOp from, ReduceOp to) {
  for (Factor& factor : rule.factors)
    if (factor.kind == FactorKind::kReduction && factor.reduce == from) factor.reduce = to;
}

const BrokenRule kBrokenRules[] = {
    {"DotForgetsItsReduction",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "dot_general")
         for (Factor& factor : rule.factors) factor.kind = FactorKind::kParallel;
     }},
    {"DotTakesTheMaximum",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "dot_general") reduce_as(rule, ReduceOp::kSum, ReduceOp::kMax);
     }},
    {"ConvolutionForgetsItsReduction",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "convolution")
         for (Factor& factor : rule.factors)
           if (factor.kind == FactorKind::kReduction) factor.kind = FactorKind::kParallel;
     }},
    {"ConvolutionNeedsNoHalo",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind != "convolution") return;
       for (DimFactor& dim : rule.inputs[0])
         if (dim.window) dim.window->before = dim.window->after = 0;
     }},
    {"TheMaximumIsAdded",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "reduce") reduce_as(rule, ReduceOp::kMax, ReduceOp::kSum);
     }},
    {"TheProductIsAdded",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "reduce") reduce_as(rule, ReduceOp::kProd, ReduceOp::kSum);
     }},
    {"TanhIsLinear",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "tanh") rule.linear = {{0}};
     }},
    {"MaxScalarIsLinear",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "max_scalar") rule.linear = {{0}};
     }},
    {"AddScalarIsLinear",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "add_scalar") rule.linear = {{0}};
     }},
    {"AddIsLinearInOneOperand",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "add") rule.linear = {{0}, {1}};
     }},
    {"MulIsJointlyLinear",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "mul") rule.linear = {{0, 1}};
     }},
    {"SelectIsLinearInOneBranch",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "select") rule.linear = {{1}, {2}};
     }},
    {"ConcatShiftsItsWindows",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "concat") move_windows(rule, 1, 1);
     }},
    {"SliceShiftsItsWindow",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "slice") move_windows(rule, -1, -1);
     }},
    {"TheWindowOfPadIsARowShort",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "pad") move_windows(rule, 0, -1);
     }},
    {"PadBringsItsValueTwice",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "pad") rule.linear = {{0}};
     }},
    {"ReshapeForgetsItsUnits",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind != "reshape") return;
       for (auto* operands : {&rule.inputs, &rule.outputs})
         for (DimFactor& dim : operands->front()) dim.unit = 1;
     }},
    {"TransposeForgetsItsOrder",
     [](std::string_view kind, const OpView& op, ShardingRule& rule) {
       if (kind == "transpose" && op.inputs[0].shape == op.outputs[0].shape)
         rule.outputs = rule.inputs;
     }},
    {"GatherForgetsItsReduction",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "gather") rule.factors[0].kind = FactorKind::kParallel;
     }},
    {"ScatterAddForgetsItsReduction",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "scatter_add")
         for (Factor& factor : rule.factors) factor.kind = FactorKind::kParallel;
     }},
    {"CumsumCutsItsDim",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "cumsum") make_whole_parallel(rule);
     }},
    {"SortCutsItsDim",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "sort") make_whole_parallel(rule);
     }},
    {"MasksForgetTheirReductions",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "take_along_dim" || kind == "gather_nd" || kind == "dynamic_slice" ||
           kind == "grouped_matmul")
         for (Factor& factor : rule.factors)
           if (factor.kind == FactorKind::kMaskedReduction) factor.kind = FactorKind::kParallel;
     }},
    {"GroupedOuterForgetsItsReduction",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "grouped_outer") rule.factors[0].kind = FactorKind::kParallel;
     }},
    {"DynamicUpdateIsLinearInItsUpdate",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "dynamic_update") rule.linear = {{0}, {1}};
     }},
    {"AttentionCutsItsKeys",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "attention") make_whole_parallel(rule);
     }},
    {"TheGradientOfAttentionForgetsItsReduction",
     [](std::string_view kind, const OpView&, ShardingRule& rule) {
       if (kind == "attention_grad")
         for (Factor& factor : rule.factors)
           if (factor.kind == FactorKind::kReduction) factor.kind = FactorKind::kParallel;
     }},
};

class BrokenRules : public testing::TestWithParam<BrokenRule> {};

/// Does the case have an op for which the broken rule differs? Other cases show nothing, and most
/// of their time is spent in running.
bool is_touched(const FuzzCase& given, Break apply) {
  return std::any_of(given.graph.ops().begin(), given.graph.ops().end(), [&](const Op& op) {
    const OpView seen = view(given.graph, op);
    ShardingRule rule = catalogue_rule(op.kind, seen);
    const std::string before = to_text(rule);
    apply(op.kind, seen, rule);
    return to_text(rule) != before;
  });
}

/// The first failures among the cases that a broken rule touches: up to `most`.
std::vector<CaseFailure> failures_of(const BrokenRule& broken, const CaseFaults& faults,
                                     size_t largest) {
  // Some faults are visible only in one of a thousand cases.
  constexpr uint64_t kMaxCases = 8000;
  // After this number one failure is enough.
  constexpr uint64_t kFewCases = 40;
  std::vector<CaseFailure> failures;
  for (uint64_t seed = 1;
       seed <= kMaxCases && failures.size() < largest && (seed <= kFewCases || failures.empty());
       ++seed) {
    const FuzzCase given = random_case(seed);
    if (!is_touched(given, broken.apply)) continue;
    if (const auto failure = run_case(given, faults)) failures.push_back(*failure);
  }
  return failures;
}

TEST_P(BrokenRules, AreFound) {
  EXPECT_FALSE(failures_of(GetParam(), with_rule(GetParam().apply), 1).empty());
}

TEST_P(BrokenRules, AreFoundBeforeAnythingRuns) {
  CaseFaults faults = with_rule(GetParam().apply);
  faults.check_placements = true;
  const std::vector<CaseFailure> failures = failures_of(GetParam(), faults, 40);
  EXPECT_FALSE(failures.empty());
  // A case that the check accepts is run and must agree.
  for (const CaseFailure& failure : failures)
    EXPECT_EQ(failure.stage, CaseFailure::Stage::kCompile) << failure.text;
}

INSTANTIATE_TEST_SUITE_P(Fuzz, BrokenRules, testing::ValuesIn(kBrokenRules),
                         [](const auto& given) { return given.param.name; });

/// Changes the first exchange for which `fits` returns true.
CaseFaults with_exchange(std::function<bool(const Exchange&)> fits,
                         std::function<void(Exchange&)> change) {
  CaseFaults faults;
  faults.tamper = [=](TaskGraph& graph) {
    for (TaskForm& task : graph.tasks.forms()) {
      if (task.kind != Task::Kind::kExchange || !fits(task.parts[0].exchange)) continue;
      change(task.parts[0].exchange);
      graph.registers.forms()[task.inputs[0]].attr = task.parts[0].exchange.from;
      return;
    }
  };
  return faults;
}

int failures_of(const CaseFaults& faults) {
  FuzzOptions options;
  options.cases = 200;
  options.max_failures = 1;
  options.faults = faults;
  return static_cast<int>(run_cases(options).total.failures);
}

TEST(PlantedFaults, AMissingReductionIsFound) {
  EXPECT_EQ(failures_of(with_exchange(
                [](const Exchange& exchange) {
                  return !exchange.from.partial.empty() && exchange.to.partial.empty();
                },
                [](Exchange& exchange) { exchange.from.partial.clear(); })),
            1);
}

TEST(PlantedFaults, PartsOfAnExchangeThatTradeTheirTargetsAreFound) {
  CaseFaults faults;
  faults.tamper = [](TaskGraph& graph) {
    const auto like = [&](RegisterFormIndex a, RegisterFormIndex b) {
      const auto& forms = graph.registers.forms();
      return forms[a].type == forms[b].type && forms[a].attr == forms[b].attr;
    };
    for (TaskForm& task : graph.tasks.forms())
      if (task.parts.size() > 1 && like(task.outputs[0], task.outputs[1]))
        return std::swap(task.outputs[0], task.outputs[1]);
  };
  EXPECT_EQ(failures_of(faults), 1);
}

TEST(PlantedFaults, AWrongReductionIsFound) {
  EXPECT_EQ(failures_of(with_exchange(
                [](const Exchange& exchange) {
                  return !exchange.from.partial.empty() && exchange.to.partial.empty();
                },
                [](Exchange& exchange) {
                  for (PartialAxis& axis : exchange.from.partial)
                    axis.reduce = axis.reduce == ReduceOp::kMax ? ReduceOp::kMin : ReduceOp::kMax;
                })),
            1);
}

TEST(PlantedFaults, ADoubleReductionIsFound) {
  EXPECT_EQ(failures_of(with_exchange(
                [](const Exchange& exchange) {
                  return exchange.from.partial.empty() && !exchange.from.uses(0);
                },
                [](Exchange& exchange) {
                  if (!exchange.to.uses(0)) exchange.from.partial = {{0, ReduceOp::kSum}};
                })),
            1);
}

TEST(PlantedFaults, AVariableThatIsCopiedTooEarlyIsFound) {
  CaseFaults faults;
  faults.tamper = [](TaskGraph& graph) {
    const RegisterFormIndex variable =
        graph.registers.numbering().form_of(graph.variables[0].value);
    for (TaskForm& task : graph.tasks.forms())
      for (KernelForm& step : task.steps)
        if (step.op.text().ends_with(".before")) step.inputs = {variable};
  };
  FuzzOptions options;
  options.max_failures = 1;
  options.faults = faults;
  EXPECT_EQ(run_cases(options).total.failures, 1);
}

// ---- the smallest form ----

TEST(Shrink, LeavesTheOpThatFailsAndTheMarkThatDividesIt) {
  const CaseFaults faults = with_rule([](std::string_view kind, const OpView&, ShardingRule& rule) {
    if (kind == "tanh") rule.linear = {{0}};
  });
  FuzzOptions options;
  options.max_failures = 1;
  options.faults = faults;
  std::optional<FuzzFinding> found;
  options.on_failure = [&](const FuzzFinding& finding) { found = finding; };
  run_cases(options);
  ASSERT_TRUE(found);
  // The sum of partial values, its tanh, and the few ops that propagate the division from the
  // marked tensor, because a mark is not moved.
  EXPECT_LE(found->smallest.graph.ops().size(), 5u) << to_text(found->smallest);
  EXPECT_LE(found->smallest.marks.size(), 2u);
  EXPECT_EQ(found->smallest.meshes.size(), 1u);
  EXPECT_EQ(found->smallest.meshes[0].mesh->size(), 2);
  EXPECT_TRUE(run_case(parse_case(to_text(found->smallest)), faults))
      << "the text repeats the failure";
  EXPECT_FALSE(run_case(found->smallest)) << "without the fault there is none";
  EXPECT_FALSE(found->smallest.meshes[0].mesh->is_weighted());
  EXPECT_THAT(to_text(*found),
              testing::HasSubstr("tessera fuzz --cases 1 --seed " + std::to_string(found->seed)));
}

TEST(Shrink, RemovesTheWeightsOfAxes) {
  FuzzCase failing;
  failing.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("x=3:1 y=1:2")));
  const ValueId x = failing.graph.add_input("x", {DType::kF32, {4}});
  failing.graph.add_output("y", x);
  CaseFaults faults;
  faults.tamper = [](TaskGraph&) { throw InternalError("planted"); };
  const auto failure = run_case(failing, faults);
  ASSERT_TRUE(failure);
  const FuzzCase smallest = shrink_case(failing, *failure, faults, 50);
  EXPECT_EQ(to_text(*smallest.meshes[0].mesh), "x=1 y=1");
}

// ---- a run of many cases ----

TEST(RunCases, StopsAfterAsManyFailuresAsItMayHave) {
  FuzzOptions options;
  options.cases = 10;
  EXPECT_EQ(run_cases(options).total.cases, 10);
  options.faults.tamper = [](TaskGraph&) { throw InternalError("planted"); };
  const FuzzProgress total = run_cases(options).total;
  EXPECT_EQ(total.failures, options.max_failures);
  EXPECT_EQ(total.cases, options.max_failures);
}

TEST(RunCases, RefusesToDoNothing) {
  FuzzOptions options;
  options.cases = 0;
  EXPECT_THROW(run_cases(options), UserError);
}

}  // namespace
}  // namespace tessera::fuzz
