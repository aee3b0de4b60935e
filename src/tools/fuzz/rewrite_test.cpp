// The passes over the serial graph on random programs: they keep every bit, a second run changes
// nothing, and a wrong pass is found.
#include "compiler/rewrite/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "base/error.h"
#include "compiler/placement_check/placement_check.h"
#include "compiler/rewrite/draft_copy.h"
#include "compiler/rewrite/testing/rewritten.h"
#include "ir/ops/interpreter.h"
#include "runtime/runtime/runtime.h"
#include "tools/fuzz/fuzz_case.h"
#include "tools/fuzz/internal/dice.h"

namespace tessera::fuzz {
namespace {

using tessera::rewrite_testing::all_passes;
using tessera::rewrite_testing::passes_named;
using ::testing::HasSubstr;

const std::vector<std::string> kAllPasses = {"fold", "algebra", "cse", "dead-code"};

/// The graph with every op written twice; each reader reads one of the two. Random programs repeat
/// few ops.
Graph doubled(const Graph& graph, uint64_t seed) {
  Dice dice(seed, "doubled");
  Graph result(graph.operators());
  std::vector<ValueId> first(graph.values().size()), second(graph.values().size());
  for (ValueId input : graph.inputs())
    first[input.index] = second[input.index] =
        result.add_input(graph.value(input).name, graph.type(input));
  for (const Variable& variable : graph.variables())
    first[variable.value.index] = second[variable.value.index] =
        result.add_variable(graph.value(variable.value).name, graph.type(variable.value),
                            variable.initializer, variable.trainable, variable.origin);
  for (const Op& op : graph.ops()) {
    std::vector<TensorType> types;
    for (ValueId output : op.outputs) types.push_back(graph.type(output));
    const auto add = [&](const std::string& name, std::vector<ValueId>& made) {
      std::vector<ValueId> inputs;
      for (ValueId input : op.inputs)
        inputs.push_back(dice.chance(0.5) ? first[input.index] : second[input.index]);
      const OpId added = result.add_op(name, op.kind, op.attributes, std::move(inputs), types,
                                       op.role, op.origin, op.regions);
      for (size_t i = 0; i < types.size(); ++i)
        made[op.outputs[i].index] = result.op(added).outputs[i];
    };
    add(op.name, first);
    add(op.name + "_again", second);
  }
  for (const auto& [name, value] : graph.outputs()) result.add_output(name, first[value.index]);
  for (const Variable& variable : graph.variables())
    if (variable.next) result.set_next(first[variable.value.index], first[variable.next->index]);
  return result;
}

/// The values of the first step, each f32 rounded as a run does.
ReferenceValues first_step(const FuzzCase& given, const Graph& graph) {
  ReferenceValues state = initial_variables(graph, given.seed);
  for (ValueId input : graph.inputs()) {
    const std::string& name = graph.value(input).name;
    state[name] = to_reference(sampled(given, name, graph.type(input), 0));
  }
  return interpret(graph, state, {.round = true});
}

bool same_bits(const ReferenceTensor& a, const ReferenceTensor& b) {
  return a.type == b.type && std::ranges::equal(a.values, b.values, [](double x, double y) {
           return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
         });
}

/// By name, the values that a step leaves: outputs and next values.
std::map<std::string, ValueId> results_of(const Graph& graph) {
  std::map<std::string, ValueId> results;
  for (const auto& [name, value] : graph.outputs()) results["output " + name] = value;
  for (const Variable& variable : graph.variables())
    if (variable.next) results["next " + graph.value(variable.value).name] = *variable.next;
  return results;
}

// Folding rounds as kernels do, not as the interpreter does; the next test is about it.
TEST(RewriteRandomPrograms, TheInterpreterFindsTheSameBitsBeforeAndAfter) {
  int64_t removed = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const FuzzCase given = random_case(seed);
    const Graph before = doubled(given.graph, seed);
    verify(before);
    const Graph after =
        rewrite(before, {}, passes_named({"algebra", "cse", "dead-code"})).made.graph;
    verify(after);
    removed += std::ssize(before.ops()) - std::ssize(after.ops());
    const ReferenceValues expected = first_step(given, before), found = first_step(given, after);
    for (const auto& [name, value] : results_of(after))
      EXPECT_TRUE(same_bits(expected.at(before.value(results_of(before).at(name)).name),
                            found.at(after.value(value).name)))
          << "seed " << seed << ": " << name;
  }
  EXPECT_GT(removed, 300);
}

/// The results of a step and the variables after it, of one rank.
std::map<std::string, Tensor> run_once(const FuzzCase& given,
                                       const std::vector<std::string>& disabled) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh("x=1"));
  const Plan plan{.meshes = one_mesh(mesh), .disabled_passes = disabled};
  const auto tasks = std::make_shared<const TaskGraph>(compile(given.graph, plan).tasks);
  Runtime runtime(std::vector<Rank>{0});
  LoadedProgram& program = runtime.load(tasks);
  runtime.initialize(program, given.seed);
  std::map<std::string, Tensor> inputs;
  std::map<std::string, const Tensor*> pointers;
  for (ValueId input : given.graph.inputs()) {
    const std::string& name = given.graph.value(input).name;
    inputs[name] = sampled(given, name, given.graph.type(input), 0);
    pointers[name] = &inputs.at(name);
  }
  TensorMap results;
  runtime.run(program, pointers, results);
  std::map<std::string, Tensor> all;
  for (const auto& [name, tensor] : results) all["output " + name] = tensor.clone();
  for (const Variable& variable : given.graph.variables()) {
    const std::string& name = given.graph.value(variable.value).name;
    all["variable " + name] = runtime.variable(name);
  }
  return all;
}

TEST(RewriteRandomPrograms, ARunHasTheSameBitsWithAndWithoutThePasses) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    FuzzCase given = random_case(seed);
    given.graph = doubled(given.graph, seed);
    const auto with = run_once(given, {});
    const auto without = run_once(given, kAllPasses);
    ASSERT_EQ(with.size(), without.size());
    for (const auto& [name, tensor] : without)
      EXPECT_EQ(std::memcmp(tensor.data(), with.at(name).data(),
                            static_cast<size_t>(byte_size(tensor.type()).value())),
                0)
          << "seed " << seed << ": " << name;
  }
}

TEST(RewriteRandomPrograms, ASecondRunChangesNothing) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Graph once = rewrite(doubled(random_case(seed).graph, seed), {}, all_passes()).made.graph;
    for (const GraphPassReport& pass : rewrite(once, {}, all_passes()).passes)
      EXPECT_TRUE(pass.changes.empty())
          << "seed " << seed << ": " << pass.name << ": " << pass.changes.front();
  }
}

// ---- planted faults ----

FuzzCase small_case() {
  return parse_case(
      "seed 5\nmesh all x=2 at 0\nmark tensor x P(\"x\")\ngraph\n"
      "input x: f32[8]\n"
      "three = constant() {dtype=\"f32\", shape=[8], value=3.0}: f32[8]\n"
      "double = mul_scalar(x) {value=2.0}: f32[8]\n"
      "triple = mul(x, three): f32[8]\n"
      "t = tanh(double): f32[8]\n"
      "y = add(t, triple): f32[8]\n"
      "output y = y\n");
}

/// What the comparison with the serial run says of a wrong pass.
std::string rewrite_failure_of(void (*wrong)(GraphDraft& draft)) {
  CaseFaults faults;
  faults.rewrite = [wrong](const Graph& graph) {
    GraphDraft draft(graph);
    wrong(draft);
    return graph_of(draft).graph;
  };
  const auto failure = run_case(small_case(), faults);
  if (!failure) return "none";
  EXPECT_EQ(failure->stage, CaseFailure::Stage::kCompare);
  return failure->text;
}

OpId op_of(const GraphDraft& draft, std::string_view name) {
  return *draft.before().find_op(name);
}
ValueId value_of(const GraphDraft& draft, std::string_view name) {
  return *draft.before().find_value(name);
}

TEST(WrongPasses, AMergeOfOpsThatDifferIsFound) {
  EXPECT_THAT(rewrite_failure_of([](GraphDraft& draft) {
                draft.replace(op_of(draft, "triple"), {value_of(draft, "double")});
              }),
              HasSubstr("register 'y'"));
}

TEST(WrongPasses, AnOpThatIsLeftOutIsFound) {
  EXPECT_THAT(rewrite_failure_of([](GraphDraft& draft) {
                draft.replace(op_of(draft, "t"), {value_of(draft, "double")});
              }),
              HasSubstr("register 'y'"));
}

TEST(WrongPasses, AWrongConstantIsFound) {
  EXPECT_THAT(
      rewrite_failure_of([](GraphDraft& draft) {
        draft.redefine(
            op_of(draft, "three"), "constant",
            {{"dtype", std::string("f32")}, {"shape", std::vector<int64_t>{8}}, {"value", 4.0}},
            {});
      }),
      HasSubstr("register 'three'"));
}

TEST(WrongPasses, AnOpWithAReaderCannotBeDropped) {
  const Graph graph = small_case().graph;
  GraphDraft draft(graph);
  EXPECT_THROW(draft.drop(op_of(draft, "t")), InternalError);
  EXPECT_THROW(draft.replace(op_of(draft, "t"), {value_of(draft, "y")}), InternalError);  // behind
  EXPECT_THROW(draft.replace(op_of(draft, "y"), {value_of(draft, "t")}), InternalError);  // output
}

// The graph that was compiled and the graph before a wrong merge differ in the operands of y.
TEST(WrongPasses, ThePlacementCheckFindsAnotherGraphThanItsOwn) {
  const FuzzCase given = small_case();
  GraphDraft draft(given.graph);
  draft.replace(op_of(draft, "triple"), {value_of(draft, "double")});
  const Graph wrong = graph_of(draft).graph;
  const Plan plan{.meshes = given.meshes, .disabled_passes = kAllPasses, .marks = given.marks};
  const TaskGraph tasks = compile(wrong, plan).tasks;
  check_placements(wrong, tasks, 1);
  EXPECT_THROW(check_placements(given.graph, tasks, 1), InternalError);
}

}  // namespace
}  // namespace tessera::fuzz
