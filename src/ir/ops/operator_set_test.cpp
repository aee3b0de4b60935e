#include "ir/ops/operator_set.h"

#include "base/testing/error.h"
#include "ir/ops/builder.h"
#include "ir/ops/detail.h"
#include "ir/ops/interpreter.h"
#include "ir/ops/operator_rule.h"

namespace tessera {
namespace {

using error_testing::message_of;

/// twice(x) = 2 x.
Operator twice() {
  return {
      .name = "twice",
      .infer = [](const OpView& op) { return std::vector{op.inputs.at(0)}; },
      .rule = [](const OpView& op) { return detail::elementwise_rule(op, {{0}}); },
      .work = [](const OpView& op) { return detail::elementwise_work(op, detail::kCheap); },
      .kernel = [](const OpView&,
                   std::span<const Split>) { return detail::kernel_call("scalar.mul", {}, {2.0}); },
      .reference =
          [](const ReferenceCall& call) {
            for (size_t i = 0; i < call.outputs[0].values.size(); ++i)
              call.outputs[0].values[i] = 2 * call.inputs[0]->values[i];
          },
      .tolerance = detail::exact};
}

OperatorSetPtr set_of(std::vector<Operator> operators) {
  return std::make_shared<const OperatorSet>(std::move(operators), std::vector<NamedKernel>{});
}

TEST(OperatorSet, GivesAGraphOperatorsBesideTheBuiltInOnes) {
  const Graph graph(set_of({twice()}));
  EXPECT_EQ(find_operator(graph, "twice").name, "twice");
  EXPECT_EQ(&find_operator(graph, "add"), &find_operator("add"));
  EXPECT_EQ(&find_operator(Graph(), "add"), &find_operator("add"));
}

TEST(OperatorSet, IsKnownToBuilderJudgeAndViews) {
  Graph graph(set_of({twice()}));
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {2}});
  builder.add(builder.op1("twice", {x}), x, "sum");
  EXPECT_EQ(to_text(graph),
            "input x: f32[2]\n"
            "twice = twice(x): f32[2]\n"
            "sum = add(twice, x): f32[2]\n");
  const ReferenceValues values = interpret(graph, {{"x", {{DType::kF32, {2}}, {1, -4}}}});
  EXPECT_EQ(values.at("sum").values, (std::vector<double>{3, -12}));
  const OpView seen = view(graph, graph.ops().front());
  EXPECT_EQ(to_text(rule_of(*seen.definition, seen)), "([d0]) -> ([d0]) {linear: 0}");
}

TEST(OperatorSet, IsOfOneGraphAndItsCopies) {
  Graph graph(set_of({twice()}));
  const Graph copy = graph;
  EXPECT_EQ(find_operator(copy, "twice").name, "twice");
  Graph other;
  Builder builder(other);
  const ValueId x = builder.input("x", {DType::kF32, {2}});
  EXPECT_THROW(builder.op1("twice", {x}), UserError);
}

TEST(OperatorSet, IsGivenAgainToTheTextOfAGraph) {
  const OperatorSetPtr own = set_of({twice()});
  const std::string text =
      "input x: f32[2]\n"
      "y = twice(x): f32[2]\n";
  const Graph graph = parse_graph(text, own);
  EXPECT_EQ(to_text(graph), text);
  EXPECT_EQ(interpret(graph, {{"x", {{DType::kF32, {2}}, {1, -4}}}}).at("y").values,
            (std::vector<double>{2, -8}));
  EXPECT_EQ(fingerprint(graph), fingerprint(parse_graph(text)));
}

TEST(OperatorSet, AnOperatorWithoutARuleIsDividedAsExecutionShows) {
  Operator unruled = twice();
  unruled.rule = nullptr;
  const Attributes none;
  const ShardingRule rule =
      rule_of(unruled, {"y", none, {{DType::kF32, {4, 100}}}, {{DType::kF32, {4, 100}}}});
  EXPECT_EQ(to_text(rule), "([f1, f2]) -> ([f1, f2]) {linear: 0}");
  EXPECT_EQ(rule.discovered, to_text(rule));
  EXPECT_EQ(rule_of(twice(), {"y", none, {{DType::kF32, {4}}}, {{DType::kF32, {4}}}}).discovered,
            "");
}

TEST(OperatorSet, NamesTheNearestOperatorAlsoAmongItsOwn) {
  const Graph graph(set_of({twice()}));
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { find_operator(graph, "twise"); }),
            "'twise' is not an operator\n"
            "  why: the catalogue has " +
                std::to_string(all_operators().size()) +
                " operators, the graph 1 of its own, none of this name\n"
                "  fix: did you mean 'twice'?");
}

TEST(OperatorSet, RefusesTheNameOfABuiltInOperator) {
  Operator add = twice();
  add.name = "add";
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { set_of({add}); }),
            "operator 'add' is built in\n"
            "  why: a kind of op must mean the same in every program\n"
            "  fix: give yours another name, such as 'my.add'");
}

TEST(OperatorSet, RefusesANameThatOccursTwice) {
  EXPECT_EQ(message_of(ExitCode::kBadData, [] { set_of({twice(), twice()}); }),
            "operator 'twice' occurs twice\n"
            "  why: ops find their operator by name\n"
            "  fix: rename or remove one of them");
}

TEST(OperatorSet, RefusesANameThatTheTextOfAGraphCannotHold) {
  Operator spaced = twice();
  spaced.name = "two times";
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { set_of({spaced}); }),
            "operator 'two times' has a name that is not legal in the text of a graph\n"
            "  why: names of operators are letters, digits, '_', '.' and '-'\n"
            "  fix: rename it");
}

TEST(OperatorSet, SaysWhatADefinitionLacks) {
  Operator unfinished = twice();
  unfinished.reference = nullptr;
  unfinished.tolerance = nullptr;
  EXPECT_EQ(
      message_of(ExitCode::kBadData, [&] { set_of({unfinished}); }),
      "operator 'twice' lacks reference, tolerance\n"
      "  why: only rule (it is discovered by execution) and gradient (none flows) may be left out\n"
      "  fix: set them in its Operator");
}

}  // namespace
}  // namespace tessera
