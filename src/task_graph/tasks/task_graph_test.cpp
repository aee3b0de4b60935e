#include "task_graph/tasks/task_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "task_graph/tasks/testing/hand_made.h"

namespace tessera {
namespace {

using testing::HasSubstr;

MeshPtr task_graph_two_ranks() {
  return std::make_shared<Mesh>(Shape{2}, std::vector<std::string>{"dp"});
}

const KernelCall kTimesTwo{"scalar.mul", {}, {2}, ""};
const KernelCall kSubtract{"binary.sub", {}, {}, ""};

/// Registers of small(), in the order in which it makes them.
constexpr RegisterIndex kX(0), kW(1), kY(2), kAll(3), kNext(4);
/// Tasks of small().
constexpr TaskId kFeed(0), kDoubleTask(1), kGather(2), kUpdate(3), kFetch(4);

/// y = 2 x; gather y; w = w - y, with w of 16 elements over two ranks.
TaskGraph small() {
  HandMade made(task_graph_two_ranks());
  const RegisterIndex x = made.input("x", "f32[16@dp]");
  const RegisterIndex w = made.variable("w", "f32[16@dp]");
  const RegisterIndex y = made.compute("y", kTimesTwo, {x}, "f32[16@dp]");
  const RegisterIndex all = made.exchange("gather", y, "f32[16]");
  made.update("w.next", kSubtract, {w, y}, w);
  made.result("all", all);
  return made.finish();
}

RegisterForm& reg(TaskGraph& graph, RegisterIndex index) {
  return graph.registers.form(index);
}
TaskForm& task(TaskGraph& graph, TaskId index) {
  return graph.tasks.form(index);
}
TaskForm& task(TaskGraph& graph, int index) {
  return graph.tasks.form(TaskId(index));
}
/// Each register has a form of its own.
constexpr RegisterFormIndex form(RegisterIndex index) {
  return RegisterFormIndex(index.value());
}
constexpr RegisterFormIndex form(int index) {
  return RegisterFormIndex(index);
}

/// Links the graph, which was changed, and checks it.
void check_changed(TaskGraph graph) {
  link(graph);
  check(graph);
}

/// What check_changed says; "" when it says nothing.
std::string offence_of(const TaskGraph& graph) {
  try {
    check_changed(graph);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

/// About small() after a change.
std::string offence_after(const std::function<void(TaskGraph&)>& change) {
  TaskGraph graph = small();
  change(graph);
  return offence_of(graph);
}

TEST(TaskGraph, TheTextOfARankShowsItsOwnPartsAndPeers) {
  EXPECT_EQ(rank_text(small(), 1),
            "F   feed x: f32[8], w: f32[8]\n"
            "F   y: f32[8] = scalar.mul(x)\n"
            "F   gather [*]: f32[16] = all-gather(y) with 0\n"
            "F   w.next: f32[8] = binary.sub(w, y)\n"
            "F   fetch gather [*]: f32[16]\n");
}

TEST(TaskGraph, TextFormListsRegistersThenTasksInOrder) {
  EXPECT_EQ(to_text(small()),
            "mesh dp=2, arena 192\n"
            "registers\n"
            "  x: f32[16@dp] at arena 0 + 32\n"
            "  w: f32[16@dp] at variable w\n"
            "  y: f32[16@dp] at arena 64 + 32\n"
            "  gather [*]: f32[16] at arena 128 + 64\n"
            "  w.next: f32[16@dp] at variable w\n"
            "tasks\n"
            "  feed 'feed' @forward -> x, w\n"
            "  compute 'y' @forward <- x -> y\n"
            "    y = scalar.mul {2.0} (x) of y\n"
            "  exchange 'gather' @forward <- y -> gather [*]\n"
            "    all-gather [@dp] -> [*]\n"
            "  compute 'w.next' @forward <- w, y over w\n"
            "    w.next = binary.sub (w, y) of w.next\n"
            "  fetch 'fetch' @forward <- gather [*]\n"
            "result all = gather [*]\n");
}

TEST(TaskGraph, LocalTypeIsTheBalancedPart) {
  // 5 over 2: 3 and 2.
  RegisterForm reg_of_five;
  reg_of_five.type = TensorType{DType::kI32, {5, 2}};
  reg_of_five.attr = parse_dist_type("i32[5@dp, 2]", task_graph_two_ranks()).attr;
  EXPECT_EQ(local_type(reg_of_five, {0}), (TensorType{DType::kI32, {3, 2}}));
  EXPECT_EQ(local_type(reg_of_five, {1}), (TensorType{DType::kI32, {2, 2}}));
}

TEST(TaskGraph, SlotsStandAtAlignedStrides) {
  RegisterForm three;
  three.size = Bytes(100);
  three.slots = 3;
  EXPECT_EQ(slot_stride(three), Bytes(128));
  EXPECT_EQ(total_size(three), Bytes(2 * 128 + 100));
}

TEST(Check, AcceptsAHandMadeGraph) {
  EXPECT_EQ(offence_after([](TaskGraph&) {}), "");
}

struct Case {
  std::string name;
  std::function<void(TaskGraph&)> change;
  std::string says;
};

class Offence : public testing::TestWithParam<Case> {};

TEST_P(Offence, IsNamed) {
  EXPECT_THAT(offence_after(GetParam().change), HasSubstr(GetParam().says));
}

void move_over(TaskGraph& graph, RegisterIndex moved, RegisterIndex over) {
  graph.registers.offset(moved) = graph.registers.offset(over);
}
void move_over(TaskGraph& graph, int moved, int over) {
  move_over(graph, RegisterIndex(moved), RegisterIndex(over));
}

INSTANTIATE_TEST_SUITE_P(
    Indices, Offence,
    testing::Values(
        Case{"NoMesh", [](TaskGraph& g) { g.meshes.front() = nullptr; }, "it has no mesh"},
        Case{"TaskMissingInOrder", [](TaskGraph& g) { g.order.pop_back(); },
             "the order list names every task once: 4 entries for 5 tasks"},
        Case{"TaskTwiceInOrder", [](TaskGraph& g) { g.order[1] = kFeed; },
             "the order list names every task once"},
        Case{"OtherMesh",
             [](TaskGraph& g) {
               reg(g, kX).attr.mesh =
                   std::make_shared<Mesh>(Shape{3}, std::vector<std::string>{"dp"});
             },
             "register 'x' is on another mesh"},
        Case{"OtherRank",
             [](TaskGraph& g) {
               reg(g, kX).type.change([](TensorType& type) { type.shape = {4, 4}; });
             },
             "register 'x' has placements of another number of dims"},
        Case{"NoSlot", [](TaskGraph& g) { reg(g, kX).slots = 0; }, "register 'x' has no slot"},
        Case{"NoSuchVariable", [](TaskGraph& g) { reg(g, kNext).variable = 1; },
             "register 'w.next' is in a variable that does not exist"},
        Case{"NoSuchInput", [](TaskGraph& g) { task(g, kGather).inputs = {form(9)}; },
             "exchange 'gather' names a register that does not exist as input"},
        Case{"NoSuchOutput", [](TaskGraph& g) { task(g, kGather).outputs = {form(9)}; },
             "names a register that does not exist as output"},
        Case{"NoSuchOverwritten",
             [](TaskGraph& g) { g.tasks.overwrites(kUpdate) = {RegisterIndex(9)}; },
             "names a register that does not exist as overwritten"},
        Case{"NoSuchOperand", [](TaskGraph& g) { task(g, kUpdate).steps[0].inputs = {form(9)}; },
             "names a register that does not exist as operand"},
        Case{"NoSuchStepResult",
             [](TaskGraph& g) { task(g, kUpdate).steps[0].outputs = {form(9)}; },
             "names a register that does not exist as result"},
        Case{"NoSuchWorkspace", [](TaskGraph& g) { task(g, kUpdate).steps[0].workspace = form(9); },
             "names a register that does not exist as workspace"},
        Case{"InputTwice", [](TaskGraph& g) { task(g, kGather).inputs = {form(kY), form(kY)}; },
             "exchange 'gather' names an input twice"}),
    [](const auto& given) { return given.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Links, Offence,
    testing::Values(
        Case{"FilledTwice",
             [](TaskGraph& g) {
               task(g, kUpdate).steps.push_back({kTimesTwo, {form(kY)}, {form(kAll)}, {}, "again"});
             },
             "register 'gather [*]' is filled twice, by gather and w.next"},
        Case{"FilledByNone", [](TaskGraph& g) { task(g, kDoubleTask).steps.clear(); },
             "register 'y' is filled by no task"},
        Case{"ReadBeforeFilled", [](TaskGraph& g) { std::swap(g.order[1], g.order[2]); },
             "register 'y' is read by gather before it is filled"},
        Case{"ReadBeforeItsKernel",
             [](TaskGraph& g) { task(g, kDoubleTask).steps[0].inputs = {form(kY)}; },
             "register 'y' is read by y before it is filled"},
        Case{"ListsOfACompute", [](TaskGraph& g) { task(g, kUpdate).inputs = {form(kY)}; },
             "compute 'w.next' is a compute task and lists registers, which its steps say"},
        Case{"WorkspaceWithConsumers",
             [](TaskGraph& g) {
               task(g, kDoubleTask).steps[0].outputs.clear();
               task(g, kDoubleTask).steps[0].workspace = form(kY);
             },
             "register 'y' is a workspace and has consumers"}),
    [](const auto& given) { return given.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Kinds, Offence,
    testing::Values(
        Case{"ExchangeOfAnotherSource",
             [](TaskGraph& g) {
               task(g, kGather).parts[0].exchange.from = task(g, kGather).parts[0].exchange.to;
             },
             "exchange 'gather' takes [@dp] as [*]"},
        Case{"ExchangeOfAnotherTarget",
             [](TaskGraph& g) {
               task(g, kGather).parts[0].exchange.to = task(g, kGather).parts[0].exchange.from;
             },
             "exchange 'gather' gives [*] as [@dp]"},
        Case{"ExchangeOfAnotherType",
             [](TaskGraph& g) {
               reg(g, kAll).type.change([](TensorType& type) { type.dtype = DType::kI32; });
             },
             "exchange 'gather' turns f32[16] into i32[16]"},
        Case{"ExchangeOfTwo", [](TaskGraph& g) { task(g, kGather).inputs.push_back(form(kX)); },
             "exchange 'gather' is an exchange and has not one input and one output for each of "
             "its 1 parts"},
        Case{"VariableElsewhere",
             [](TaskGraph& g) { reg(g, kW).storage = Register::Storage::kArena; },
             "register 'w' is a variable and is stored elsewhere"},
        Case{"InputThatNobodyFeeds", [](TaskGraph& g) { g.inputs[0].value = kY; },
             "register 'y' is an input or a variable and is not filled by a feed"},
        Case{"NoSuchInputRegister", [](TaskGraph& g) { g.inputs[0].value = {}; },
             "'x' names a register that does not exist"},
        Case{"PartialInput",
             [](TaskGraph& g) {
               reg(g, kX).attr =
                   parse_dist_type("f32[16] {partial sum: dp}", g.meshes.front()).attr;
             },
             "register 'x' is an input and Partial"},
        Case{"PartialVariableThatDoesNotBeginAsZero",
             [](TaskGraph& g) {
               reg(g, kW).attr =
                   parse_dist_type("f32[16] {partial sum: dp}", g.meshes.front()).attr;
               g.variables[0].initializer = Initializer::constant(1);
             },
             "register 'w' is a variable that does not begin as zero and Partial"},
        Case{"FedWithoutName", [](TaskGraph& g) { g.inputs.clear(); },
             "feed 'feed' feeds x, which is no input and no variable"},
        Case{"ResultThatNobodyTakes", [](TaskGraph& g) { g.results.emplace_back("y", kY); },
             "register 'y' is the result y and no fetch takes it"},
        Case{"NoSuchResult", [](TaskGraph& g) { g.results[0].second = RegisterIndex(17); },
             "result 'all' names a register that does not exist"},
        Case{"PartialResult",
             [](TaskGraph& g) {
               reg(g, kAll).attr =
                   parse_dist_type("f32[16] {partial sum: dp}", g.meshes.front()).attr;
               task(g, kGather).parts[0].exchange.to = reg(g, kAll).attr;
             },
             "register 'gather [*]' is the result all and Partial"},
        Case{"StepsOfAnExchange",
             [](TaskGraph& g) {
               task(g, kGather).steps.push_back({kTimesTwo, {form(kY)}, {}, {}, "y"});
             },
             "exchange 'gather' is no compute task and has steps"},
        Case{"FeedThatTakes", [](TaskGraph& g) { task(g, kFetch).kind = Task::Kind::kFeed; },
             "feed 'fetch' is a feed and takes registers"},
        Case{"FetchThatGives", [](TaskGraph& g) { task(g, kFeed).kind = Task::Kind::kFetch; },
             "fetch 'feed' is a fetch and gives registers"}),
    [](const auto& given) { return given.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Memory, Offence,
    testing::Values(
        Case{"TooSmall", [](TaskGraph& g) { reg(g, kX).size = Bytes(31); },
             "register 'x' has 31 bytes and needs 32"},
        Case{"NotAligned", [](TaskGraph& g) { g.registers.offset(kY) += 4; },
             "register 'y' is not aligned: offset 68"},
        Case{"Negative", [](TaskGraph& g) { g.registers.offset(kY) = -64; },
             "register 'y' is not aligned: offset -64"},
        Case{"OutsideTheArena", [](TaskGraph& g) { g.arenas.front() = Bytes(191); },
             "register 'gather [*]' ends at byte 192 of an arena of 191"},
        Case{"SlotsOutsideTheArena", [](TaskGraph& g) { reg(g, kAll).slots = 3; },
             "register 'gather [*]' ends at byte 320 of an arena of 192"},
        Case{"SlotsOfAVariable", [](TaskGraph& g) { reg(g, kW).slots = 2; },
             "register 'w' is in a variable and has several slots"},
        Case{"VariableOfAnotherType",
             [](TaskGraph& g) {
               reg(g, kNext).type.change([](TensorType& type) { type.dtype = DType::kI32; });
             },
             "register 'w.next' is in a variable of another type or placement"},
        Case{"FedTogether", [](TaskGraph& g) { move_over(g, kAll, kX), move_over(g, kY, kAll); },
             "register 'gather [*]' is written over 'y', which is still alive"},
        Case{"OverwritesWhatIsReadLater", [](TaskGraph& g) { g.tasks.overwrites(kGather) = {kW}; },
             "exchange 'gather' overwrites w, which w.next reads later"}),
    [](const auto& given) { return given.param.name; });

/// a = 2 x; b = 2 a; c = 2 b, where the memory of some may be shared.
TaskGraph chain(const std::string& kernel) {
  HandMade made(task_graph_two_ranks());
  const KernelCall call{kernel, {}, {2}, ""};
  const RegisterIndex x = made.input("x", "f32[16@dp]");
  const RegisterIndex a = made.compute("a", call, {x}, "f32[16@dp]");
  const RegisterIndex b = made.compute("b", call, {a}, "f32[16@dp]");
  made.result("c", made.compute("c", call, {b}, "f32[16@dp]"));
  return made.finish();
}

TEST(Check, DeadMemoryIsUsedAgain) {
  TaskGraph graph = chain("reduce.sum");
  move_over(graph, 2, 0);  // b over x, which only a reads
  EXPECT_NO_THROW(check(graph));
}

/// y = 2 x, gathered, then z = 2 x and all = 2 gathered; tasks in this order after the feed.
TaskGraph gather_after() {
  HandMade made(task_graph_two_ranks());
  const KernelCall call{"scalar.mul", {}, {2}, ""};
  const RegisterIndex x = made.input("x", "f32[16@dp]");
  const RegisterIndex y = made.compute("y", call, {x}, "f32[16@dp]");
  const RegisterIndex z = made.compute("z", call, {x}, "f32[16@dp]");
  const RegisterIndex gathered = made.exchange("gather", y, "f32[16]");
  made.result("z", z);
  made.result("all", made.compute("all", call, {gathered}, "f32[16]"));
  return made.finish();
}
constexpr TaskId kMakesY(1), kMakesZ(2), kGathers(3);
constexpr RegisterIndex kZ(2), kGathered(3);

TEST(Check, WhatMayBeginAheadHasItsPlaceToItself) {
  TaskGraph graph = gather_after();
  move_over(graph, kGathered, RegisterIndex(0));  // x is read for the last time by z
  EXPECT_NO_THROW(check(graph));
  graph.tasks.instance(kGathers).issue_after = kMakesZ;
  EXPECT_NO_THROW(check(graph));
  graph.tasks.instance(kGathers).issue_after = kMakesY;
  EXPECT_THAT(offence_of(graph),
              HasSubstr("register 'gather [*]' is written over 'x', which is still alive"));
}

TEST(Check, NothingThatIsFilledMeanwhileLiesWhereAnExchangeMayHaveBegun) {
  TaskGraph graph = gather_after();
  graph.tasks.instance(kGathers).issue_after = kMakesY;
  EXPECT_NO_THROW(check(graph));
  move_over(graph, kZ, kGathered);
  EXPECT_THAT(offence_of(graph),
              HasSubstr("register 'z' is written over 'gather [*]', which is still alive"));
}

TEST(Check, AnExchangeBeginsBeforeItsTurn) {
  TaskGraph graph = gather_after();
  graph.tasks.instance(kGathers).issue_after = kGathers + 1;
  EXPECT_THAT(offence_of(graph),
              HasSubstr("exchange 'gather' has the issue point all, which comes later"));
  graph.tasks.instance(kGathers).issue_after = TaskId(99);
  EXPECT_THAT(offence_of(graph),
              HasSubstr("exchange 'gather' has an issue point that does not exist"));
  graph.tasks.instance(kGathers).issue_after = {};
  graph.tasks.instance(kMakesZ).issue_after = kMakesY;
  EXPECT_THAT(offence_of(graph),
              HasSubstr("compute 'z' has an issue point that does not exist, or is no exchange"));
}

/// Two inputs that are gathered together.
TaskGraph gathered_together() {
  HandMade made(task_graph_two_ranks());
  const RegisterIndex x = made.input("x", "f32[16@dp]"), y = made.input("y", "i32[32@dp]");
  const auto whole = made.exchange("both", {x, y}, {"f32[16]", "i32[32]"});
  made.result("x", whole[0]);
  made.result("y", whole[1]);
  return made.finish();
}

TEST(TaskGraphText, AnExchangeHasALineForEachPart) {
  EXPECT_THAT(to_text(gathered_together()),
              HasSubstr("  exchange 'both' @forward <- x, y -> x [*], y [*]\n"
                        "    all-gather [@dp] -> [*]\n"
                        "    all-gather [@dp] -> [*]\n"));
  EXPECT_THAT(rank_text(gathered_together(), 1),
              HasSubstr("x [*]: f32[16] = all-gather(x) with 0\n"
                        "F   y [*]: i32[32] = all-gather(y) with 0\n"));
}

TEST(Check, APartOfAnExchangeIsNotWrittenOverTheSourceOfAnother) {
  TaskGraph graph = gathered_together();
  EXPECT_NO_THROW(check(graph));
  move_over(graph, 3, 0);  // the whole y over x
  EXPECT_THAT(offence_of(graph), HasSubstr("is written over 'x', which is still alive"));
}

TEST(Check, ThePartsOfAnExchangeHaveSourcesAndTargetsOfTheirOwn) {
  TaskGraph graph = gathered_together();
  task(graph, 1).inputs[1] = task(graph, 1).inputs[0];
  EXPECT_THAT(offence_of(graph), HasSubstr("exchange 'both' names an input twice"));
  graph = gathered_together();
  task(graph, 1).parts.pop_back();
  EXPECT_THAT(offence_of(graph),
              HasSubstr("has not one input and one output for each of its 1 parts"));
}

TEST(Check, AKernelThatRunsInPlaceMayWriteOverItsInput) {
  TaskGraph in_place = chain("scalar.mul");
  move_over(in_place, 1, 0);
  EXPECT_NO_THROW(check(in_place));
  TaskGraph not_in_place = chain("reduce.sum");
  move_over(not_in_place, 1, 0);
  EXPECT_THROW(check(not_in_place), InternalError);
}

TEST(Check, AnInputThatIsReadAgainLaterIsNotWrittenOver) {
  TaskGraph graph = chain("scalar.mul");
  task(graph, 3).steps[0].inputs.push_back(form(0));  // c reads x too
  EXPECT_NO_THROW(check_changed(graph));
  move_over(graph, 1, 0);
  EXPECT_THROW(check_changed(graph), InternalError);
}

TEST(Check, AWorkspaceIsAloneDuringItsStep) {
  TaskGraph graph = chain("scalar.mul");
  RegisterForm workspace = reg(graph, RegisterIndex(2));
  workspace.name = "workspace";
  graph.registers.push_back(workspace, graph.arenas.front().value());
  graph.arenas.front() += Bytes(64);
  task(graph, 2).steps[0].workspace = form(4);  // of b = 2 a
  link(graph);
  EXPECT_NO_THROW(check(graph));
  move_over(graph, 4, 3);  // c comes later
  EXPECT_NO_THROW(check(graph));
  move_over(graph, 4, 1);  // a is read
  EXPECT_THROW(check(graph), InternalError);
  move_over(graph, 4, 2);  // b is written
  EXPECT_THROW(check(graph), InternalError);
}

/// gather(2 x), then twice 2 gathered; `reuses`, z or later, is in the memory of y = 2 x, which the
/// other rank may not have read yet.
TaskGraph gathered_and_reused(const std::string& reuses) {
  HandMade made(task_graph_two_ranks());
  const RegisterIndex x = made.input("x", "f32[16@dp]");
  const RegisterIndex y = made.compute("y", kTimesTwo, {x}, "f32[16@dp]");
  const RegisterIndex all = made.exchange("gather", y, "f32[16]");
  const RegisterIndex z = made.compute("z", kTimesTwo, {all}, "f32[16]");
  const RegisterIndex later = made.compute("later", kTimesTwo, {z}, "f32[16]");
  made.result("later", later);
  move_over(made.graph(), reuses == "z" ? z : later, y);
  return made.finish();
}

TEST(Check, WhatOtherRanksReadIsWrittenOverAfterAnOverwriteEdgeOnly) {
  TaskGraph graph = gathered_and_reused("z");
  EXPECT_THROW(check(graph), InternalError);
  graph.tasks.overwrites(TaskId(3)) = {RegisterIndex(1)};
  EXPECT_NO_THROW(check(graph));
}

TEST(Check, AnEarlierOverwriteEdgeProtectsLaterOnes) {
  // The task after z may write over y, once z has waited for its readers.
  TaskGraph graph = gathered_and_reused("later");
  EXPECT_THROW(check(graph), InternalError);
  graph.tasks.overwrites(TaskId(3)) = {RegisterIndex(1)};
  EXPECT_NO_THROW(check(graph));
}

TEST(Check, ATaskMayWaitForTheReadersThatARegisterHadInTheStepBefore) {
  // kAll is filled later in the order.
  EXPECT_EQ(offence_after([](TaskGraph& g) { g.tasks.overwrites(kDoubleTask) = {kAll}; }), "");
}

}  // namespace
}  // namespace tessera
