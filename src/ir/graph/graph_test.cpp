#include "ir/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const TensorType kScalar{DType::kF32, {}};

std::string message_of(std::string_view text) {
  try {
    parse_graph(text);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
    return error.what();
  }
  return "no error";
}

template <typename Function>
std::string broken_promise(Function function) {
  try {
    function();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

/// A program with every form of a line.
constexpr std::string_view kProgram =
    "input x: f32[8,16]\n"
    "input step: i32[]\n"
    "variable w: f32[16,4] = normal(0.0, 0.02)\n"
    "variable u: f32[4] = uniform(-1.0, 1.0)\n"
    "variable w.momentum: f32[16,4] = constant(0.0) state <- optimizer w\n"
    "y = dot_general(x, w) {spec=\"mk,kn->mn\"}: f32[8,4]\n"
    "block.0.a = attention(y, y, y) {causal=true, scale=0.125}: f32[1,2,2,4], f32[1,2,2]\n"
    "noise = random_uniform(step) {key=-9223372036854775807, shape=[8, 4]}: f32[8,4]\n"
    "empty = constant() {dtype=\"\", shape=[], value=-1e-30}: f32[]\n"
    "row = reduce(block.0.a:1) {dims=[0, 1, 2], op=\"sum\"}: f32[]\n"
    "y.grad.b = dot_general(x, y) {spec=\"mk,mn->kn\"}: f32[16,4] @backward <- gradient y\n"
    "norm = sqrt(row): f32[] @optimizer <- optimizer\n"
    "w.sgd = sub(w, y.grad.b): f32[16,4] @optimizer <- optimizer w\n"
    "output loss = row\n"
    "output log_sum = block.0.a:1\n"
    "next w = w.sgd\n";

TEST(GraphText, PrintsWhatItParsed) {
  EXPECT_EQ(to_text(parse_graph(kProgram)), kProgram);
}

TEST(GraphText, KeepsTheKindOfEveryAttribute) {
  const Graph graph = parse_graph(
      "a = thing() {flag=false, count=3, big=9007199254740993, rate=3.0, word=\"3\", list=[1], "
      "none=[]}: f32[]\n");
  const Attributes& attributes = graph.op({0}).attributes;
  EXPECT_FALSE(attributes.boolean("flag"));
  EXPECT_EQ(attributes.integer("count"), 3);
  // 2^53 + 1, which is not exact in a double
  EXPECT_EQ(attributes.integer("big"), 9007199254740993);
  EXPECT_EQ(attributes.number("rate"), 3.0);
  EXPECT_EQ(attributes.text("word"), "3");
  EXPECT_THAT(attributes.integers("list"), ElementsAre(1));
  EXPECT_TRUE(attributes.integers("none").empty());
}

TEST(GraphText, KeepsEveryBitOfANumber) {
  const std::string line =
      "a = thing() {large=1e+300, small=4.9406564584124654e-324, third=0.3333333333333333}: "
      "f32[]\n";
  EXPECT_EQ(parse_graph(line).op({0}).attributes.number("third"), 1.0 / 3);
  EXPECT_EQ(parse_graph(to_text(parse_graph(line))).op({0}).attributes,
            parse_graph(line).op({0}).attributes);
}

TEST(GraphText, SkipsEmptyLinesAndSpacesAround) {
  EXPECT_EQ(to_text(parse_graph("\n   input x: f32[2]   \n\n  y = neg( x ) : f32[2]\n")),
            "input x: f32[2]\ny = neg(x): f32[2]\n");
}

TEST(GraphText, ReadsRolesOriginsAndState) {
  const Graph graph = parse_graph(kProgram);
  const Op& gradient = graph.op(*graph.find_op("y.grad.b"));
  EXPECT_EQ(gradient.role, Role::kBackward);
  EXPECT_EQ(gradient.origin, (Origin{"y", "gradient"}));
  EXPECT_EQ(graph.op(*graph.find_op("norm")).origin, (Origin{"", "optimizer"}));
  const Variable& momentum = graph.variables()[2];
  EXPECT_FALSE(momentum.trainable);
  EXPECT_EQ(momentum.origin, (Origin{"w", "optimizer"}));
  EXPECT_TRUE(graph.variables()[0].trainable);
  EXPECT_EQ(graph.variables()[1].initializer, Initializer::uniform(-1, 1));
}

TEST(GraphText, AnOperandThatStandsNowhereIsRefusedWithItsLine) {
  EXPECT_EQ(message_of("input x: f32[2]\n\ny = add(x, z): f32[2]\n"),
            "line 3 of the graph is malformed: y = add(x, z): f32[2]\n"
            "  why: expected a value of a line above, not 'z', at '): f32[2]'\n"
            "  fix: write the line as to_text() prints it");
}

TEST(GraphText, AMissingTypeIsRefused) {
  EXPECT_EQ(message_of("input x f32[2]"),
            "line 1 of the graph is malformed: input x f32[2]\n"
            "  why: expected ':' at 'f32[2]'\n"
            "  fix: write the line as to_text() prints it");
}

TEST(GraphText, AnUnknownRoleIsRefused) {
  EXPECT_EQ(message_of("a = thing(): f32[] @sideways"),
            "line 1 of the graph is malformed: a = thing(): f32[] @sideways\n"
            "  why: expected backward or optimizer at 'sideways'\n"
            "  fix: write the line as to_text() prints it");
}

TEST(GraphText, AnUnknownInitializerIsRefused) {
  EXPECT_EQ(message_of("variable w: f32[2] = gaussian(0.0, 1.0)"),
            "line 1 of the graph is malformed: variable w: f32[2] = gaussian(0.0, 1.0)\n"
            "  why: expected constant, normal or uniform at ''\n"
            "  fix: write the line as to_text() prints it");
}

TEST(GraphText, ANameGivenTwiceIsRefused) {
  EXPECT_EQ(
      message_of("input x: f32[2]\ninput x: f32[2]"),
      "line 2 of the graph is malformed: input x: f32[2]\n"
      "  why: expected a line that fits the graph (internal error: the name 'x' is taken) at ''\n"
      "  fix: write the line as to_text() prints it");
}

TEST(GraphText, ANextValueOfAnotherTypeIsRefused) {
  EXPECT_EQ(message_of("input x: f32[3]\nvariable w: f32[2] = constant(0.0)\nnext w = x"),
            "line 3 of the graph is malformed: next w = x\n"
            "  why: expected a line that fits the graph (internal error: the next value of 'w' has "
            "another type) at ''\n"
            "  fix: write the line as to_text() prints it");
}

TEST(GraphText, WhatFollowsTheEndOfALineIsRefused) {
  EXPECT_EQ(message_of("input x: f32[2] f32[3]"),
            "line 1 of the graph is malformed: input x: f32[2] f32[3]\n"
            "  why: expected the end of the line at 'f32[3]'\n"
            "  fix: write the line as to_text() prints it");
}

class CutLine : public testing::TestWithParam<std::string> {};

/// A line that is cut off anywhere is an error of the user. It never crashes, hangs or is accepted.
TEST_P(CutLine, IsRefusedWhereverItStops) {
  const std::string& line = GetParam();
  const std::string before = "input x: f32[8]\nvariable w: f32[8] = constant(0.0)\n";
  ASSERT_EQ(message_of(before + line), "no error");
  for (size_t length = 1; length < line.size(); ++length) {
    const std::string cut = line.substr(0, length);
    const bool whole = cut.ends_with("}: f32[8]") || cut.ends_with("f32[8] ") ||
                       cut.ends_with("@backward") || cut.ends_with("@backward ") ||
                       cut.find("<- g") != std::string::npos;
    if (whole) continue;  // a complete line with less content
    EXPECT_THAT(message_of(before + cut), HasSubstr("line 3 of the graph is malformed: ")) << cut;
  }
}
INSTANTIATE_TEST_SUITE_P(
    GraphText, CutLine,
    testing::Values("y = f(x, w) {a=[1, 2], b=\"c\", c=true}: f32[8] @backward <- gradient x",
                    "output loss = x", "next w = x", "input z: f32[8]",
                    "variable z: f32[8] = normal(0.0, 0.5)"));

TEST(Graph, UniqueNameAppendsTheFirstFreeNumber) {
  Graph graph;
  EXPECT_EQ(graph.unique_name("a"), "a");
  graph.add_input("a", kScalar);
  EXPECT_EQ(graph.unique_name("a"), "a_1");
  graph.add_op("a_1", "thing", {}, {}, {kScalar});
  EXPECT_EQ(graph.unique_name("a"), "a_2");
}

TEST(Graph, AnOpWithoutResultsHoldsItsNameToo) {
  Graph graph;
  graph.add_op("a", "thing", {}, {}, {});
  EXPECT_EQ(graph.unique_name("a"), "a_1");
  EXPECT_EQ(graph.find_value("a"), std::nullopt);
}

TEST(Graph, FurtherResultsAreNamedByTheirNumber) {
  Graph graph;
  const Op& op =
      graph.op(graph.add_op("a", "thing", {}, {}, {kScalar, {DType::kI32, {2}}, kScalar}));
  ASSERT_EQ(op.outputs.size(), 3u);
  EXPECT_EQ(graph.value(op.outputs[0]).name, "a");
  EXPECT_EQ(graph.value(op.outputs[1]).name, "a:1");
  EXPECT_EQ(graph.value(op.outputs[2]).name, "a:2");
  EXPECT_EQ(graph.find_value("a:1"), op.outputs[1]);
  EXPECT_EQ(graph.type(op.outputs[1]), (TensorType{DType::kI32, {2}}));
}

TEST(Graph, UsersAreListedOncePerOperandInProgramOrder) {
  Graph graph;
  const ValueId x = graph.add_input("x", kScalar);
  const OpId square = graph.add_op("square", "mul", {}, {x, x}, {kScalar});
  const OpId negative = graph.add_op("negative", "neg", {}, {x}, {kScalar});
  EXPECT_THAT(graph.value(x).users, ElementsAre(square, square, negative));
  EXPECT_NO_THROW(verify(graph));
}

TEST(Graph, KnowsItsInputsVariablesAndOutputs) {
  const Graph graph = parse_graph(kProgram);
  EXPECT_TRUE(graph.is_input(*graph.find_value("x")));
  EXPECT_FALSE(graph.is_input(*graph.find_value("w")));
  EXPECT_EQ(graph.variable_of(*graph.find_value("x")), nullptr);
  EXPECT_EQ(graph.variable_of(*graph.find_value("w"))->next, graph.find_value("w.sgd"));
  EXPECT_EQ(graph.output("loss"), *graph.find_value("row"));
  EXPECT_NO_THROW(verify(graph));
}

TEST(Graph, ATakenNameIsABrokenPromise) {
  Graph graph;
  graph.add_input("a", kScalar);
  EXPECT_EQ(broken_promise([&] { graph.add_op("a", "thing", {}, {}, {kScalar}); }),
            "internal error: the name 'a' is taken");
}

TEST(Graph, ANameOfOtherLettersIsABrokenPromise) {
  Graph graph;
  EXPECT_EQ(broken_promise([&] { graph.add_input("a b", kScalar); }),
            "internal error: 'a b' is not a name");
  EXPECT_EQ(broken_promise([&] { graph.add_input("", kScalar); }),
            "internal error: '' is not a name");
}

TEST(Graph, AnOperandThatDoesNotExistIsABrokenPromise) {
  Graph graph;
  EXPECT_EQ(broken_promise([&] { graph.add_op("a", "thing", {}, {{0}}, {kScalar}); }),
            "internal error: an operand of 'a' does not exist");
  EXPECT_EQ(broken_promise([&] { graph.add_op("b", "thing", {}, {{-1}}, {kScalar}); }),
            "internal error: an operand of 'b' does not exist");
}

TEST(Graph, NextIsForVariablesOnly) {
  Graph graph;
  const ValueId x = graph.add_input("x", kScalar);
  EXPECT_EQ(broken_promise([&] { graph.set_next(x, x); }), "internal error: 'x' is not a variable");
}

TEST(Graph, AnAbsentOutputIsABrokenPromise) {
  EXPECT_EQ(broken_promise([] { Graph().output("loss"); }),
            "internal error: the graph has no output 'loss'");
}

TEST(Graph, AnEmptyGraphVerifiesAndPrintsNothing) {
  EXPECT_NO_THROW(verify(Graph()));
  EXPECT_EQ(to_text(Graph()), "");
}

TEST(Attributes, AnAbsentOneOrOneOfAnotherKindIsABrokenPromise) {
  const Attributes attributes{{"dim", int64_t{1}}};
  EXPECT_EQ(broken_promise([&] { attributes.integer("dims"); }),
            "internal error: attribute 'dims' is missing");
  EXPECT_EQ(broken_promise([&] { attributes.number("dim"); }),
            "internal error: attribute 'dim' is of another kind");
}

TEST(Fingerprint, ChangesWithAnyLineAndOnlyThen) {
  const Graph graph = parse_graph(kProgram);
  EXPECT_EQ(fingerprint(graph), fingerprint(parse_graph(to_text(graph))));
  Graph longer = graph;
  longer.add_output("second", *longer.find_value("y"));
  EXPECT_NE(fingerprint(graph), fingerprint(longer));
}

TEST(Graph, AnOutputThatIsRemovedIsNotHandedOutAndItsValueStays) {
  Graph graph;
  const ValueId x = graph.add_input("x", kScalar);
  graph.add_output("kept", x);
  graph.add_output("gone", x);
  graph.remove_output("gone");
  EXPECT_EQ(graph.outputs(), (std::vector<std::pair<std::string, ValueId>>{{"kept", x}}));
  EXPECT_EQ(graph.find_value("x"), x);
  EXPECT_THAT(broken_promise([&] { graph.remove_output("gone"); }), HasSubstr("no output 'gone'"));
}

}  // namespace
}  // namespace tessera
