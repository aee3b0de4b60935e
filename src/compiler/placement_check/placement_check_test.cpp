// Faults are planted into compiled programs and found before anything runs. Each fault is planted
// at every position where it fits, or at a sample of those positions.
#include "compiler/placement_check/placement_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/optimizer.h"
#include "ir/models/model.h"
#include "ir/ops/builder.h"
#include "task_graph/tasks/testing/faults.h"
#include "task_graph/tasks/testing/unrolled.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Case {
  Graph graph;
  TaskGraph tasks;  // unrolled, so that a fault is in one micro-batch
  int64_t micro_batches = 1;
};

/// Two blocks of a language model with dropout, loss, clipping and AdamW.
Graph training() {
  const ModelConfig model{
      .kind = "gpt", .vocabulary = 21, .context = 6, .layers = 2, .width = 16, .heads = 4};
  Graph graph = build_model(model, {.batch = 6});
  Builder b(graph);
  OptimizerConfig optimizer;
  optimizer.clip_norm = 1;
  add_training(b, graph.output("loss"), optimizer);
  return graph;
}

Case compiled(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
              int64_t micro_batches) {
  // The faults are planted in exchanges of one part;
  // compiler/lower/internal/passes/combine_test.cpp has the others.
  const Plan plan{.meshes = meshes,
                  .micro_batches = micro_batches,
                  .disabled_passes = {"combine"},
                  .marks = marks};
  Compiled made = compile(graph, plan);
  return {std::move(made.graph), unrolled(made.tasks), micro_batches};
}

std::vector<Mark> batch_over_dp() {
  return {shard_tensor("tokens", "P(\"dp\")"), shard_tensor("labels", "P(\"dp\")")};
}

/// dp=2 tp=2 on one mesh.
Case make_divided() {
  std::vector<Mark> marks = batch_over_dp();
  for (const char* by_rows :
       {"tokens.weight", "blocks.*.attn.out.weight", "blocks.*.ffn.down.weight"})
    marks.push_back(shard_tensor(by_rows, "P(\"tp\")"));
  for (const char* by_columns :
       {"head.weight", "blocks.*.attn.{q,k,v}.weight", "blocks.*.ffn.up.weight"})
    marks.push_back(shard_tensor(by_columns, "P(None, \"tp\")"));
  return compiled(training(), one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=2 tp=2"))),
                  marks, 1);
}

/// One block for each stage, each stage on dp=2, in three micro-batches.
Case make_pipelined() {
  std::vector<Mark> marks = batch_over_dp();
  marks.push_back(stage("blocks.0.*", "first"));
  marks.push_back(stage("blocks.1.*", "last"));
  const auto mesh = [](Rank begin) {
    return std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"dp"},
                                        std::vector<Rank>{begin, begin + 1});
  };
  return compiled(training(), {{"first", mesh(0)}, {"last", mesh(2)}}, marks, 3);
}

/// y = tanh(x w) with the contracted dim divided.
Case one_product(std::string_view mesh = "tp=2") {
  Graph graph;
  Builder b(graph);
  const TensorType square{DType::kF32, {4, 4}};
  const ValueId x = b.input("x", square);
  const ValueId w = b.variable("w", square, Initializer::normal(0, 1));
  graph.add_output("y", b.unary("tanh", b.dot(x, w, "mk,kn->mn", "product"), "y"));
  return compiled(graph, one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh))),
                  {shard_tensor("w", "P(\"tp\")")}, 1);
}

const Case& divided() {
  static const Case made = make_divided();
  return made;
}
const Case& pipelined() {
  static const Case made = make_pipelined();
  return made;
}

/// The message of the check; "" when it finds nothing.
std::string placement_check_finding(const Case& given, TaskGraph tasks) {
  try {
    link(tasks);
    check_placements(given.graph, tasks, given.micro_batches);
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
}

// ---- planting ----

/// A task and a kernel step of it; of an exchange step 0.
using Positions = std::vector<std::pair<TaskId, size_t>>;

Positions exchanges_where(const TaskGraph& tasks, const std::function<bool(const Task&)>& fits) {
  Positions positions;
  for (TaskId t : tasks.tasks.indices())
    if (tasks.tasks[t].kind == Task::Kind::kExchange && fits(tasks.tasks[t]))
      positions.emplace_back(t, 0);
  return positions;
}

Positions steps_where(const TaskGraph& tasks, const std::function<bool(const KernelStep&)>& fits) {
  Positions positions;
  for (TaskId t : tasks.tasks.indices())
    for (size_t s = 0; s < tasks.tasks[t].steps.size(); ++s)
      if (fits(tasks.tasks[t].steps[s])) positions.emplace_back(t, s);
  return positions;
}

RegisterForm& reg_of(TaskGraph& tasks, RegisterFormIndex reg) {
  return tasks.registers.forms()[reg];
}
Register reg_of(const TaskGraph& tasks, RegisterIndex reg) {
  return tasks.registers[reg];
}

constexpr size_t kMaxPositions = 20;

/// Plants a fault at each of `positions` in turn, or at a sample of them, and expects a finding
/// that matches `says` each time.
void expect_found(const Case& given, const Positions& positions,
                  const std::function<void(TaskGraph&, TaskForm&, size_t step)>& plant,
                  const testing::Matcher<std::string>& says) {
  EXPECT_FALSE(positions.empty()) << "the fault fits somewhere";
  const size_t stride = (positions.size() + kMaxPositions - 1) / kMaxPositions;
  for (size_t i = 0; i < positions.size(); i += stride) {
    const auto& [task, step] = positions[i];
    TaskGraph tasks = given.tasks;
    plant(tasks, tasks.tasks.form(task), step);
    EXPECT_THAT(placement_check_finding(given, tasks), says)
        << "planted in task " << task.value() << " '" << given.tasks.tasks[task].name << "', step "
        << step;
  }
}

void expect_found_in_steps(const Case& given, const std::function<bool(const KernelStep&)>& fits,
                           const std::function<void(TaskGraph&, KernelForm&)>& plant,
                           const testing::Matcher<std::string>& says) {
  expect_found(
      given, steps_where(given.tasks, fits),
      [&](TaskGraph& tasks, TaskForm& task, size_t step) { plant(tasks, task.steps[step]); }, says);
}

template <class AnyTask>
bool resolves(const AnyTask& task) {
  return task.parts[0].exchange.from.partial.size() > task.parts[0].exchange.to.partial.size();
}

/// An axis that neither end of the exchange uses, or -1.
template <class AnyTask>
int idle_axis(const AnyTask& task) {
  for (int axis = 0; axis < task.parts[0].exchange.from.mesh->axis_count(); ++axis)
    if (!task.parts[0].exchange.from.uses(axis) && !task.parts[0].exchange.to.uses(axis))
      return axis;
  return -1;
}

const auto kFound = HasSubstr("internal error: placements: ");

TEST(PlacementCheck, PassesCompiledPrograms) {
  for (const Case& given : {std::cref(divided()), std::cref(pipelined())})
    EXPECT_EQ(placement_check_finding(given, given.tasks), "");
}

TEST(PlacementCheck, PassesPartsThatAreUnevenOrEmpty) {
  for (const char* mesh : {"tp=3", "tp=64", "a=2 tp=40", "tp=2:1", "a=2 tp=1:5:2"}) {
    const Case given = one_product(mesh);
    EXPECT_EQ(placement_check_finding(given, given.tasks), "") << mesh;
  }
}

// Found by fuzzing: an input is fed to one stage by micro-batch, and whole to another.
TEST(PlacementCheck, PassesAnOutputOfWhichEachMicroBatchMakesItsRows) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4}});
  b.unary("exp", x, "by_rows");
  b.slice(x, {0}, {1}, {1}, "whole");
  graph.add_output("x", x);
  const auto device = [](Rank rank) {
    return std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"dp"},
                                        std::vector<Rank>{rank});
  };
  const Case given = compiled(graph, {{"first", device(0)}, {"last", device(1)}},
                              {stage("by_rows", "first"), stage("whole", "last")}, 2);
  EXPECT_EQ(given.tasks.inputs.size(), 3u) << "two micro-batches, and the whole";
  EXPECT_TRUE(given.tasks.results.empty());
  EXPECT_EQ(placement_check_finding(given, given.tasks), "");
}

// ---- weights ----

/// dp=2:1 with dropout, so that kernels have offsets of rows as parameters.
Case weighted(const char* mesh, int64_t micro_batches) {
  const ModelConfig model{.kind = "gpt",
                          .vocabulary = 21,
                          .context = 6,
                          .layers = 1,
                          .width = 16,
                          .heads = 4,
                          .dropout = 0.1};
  Graph graph = build_model(model, {.batch = 12});
  Builder b(graph);
  add_training(b, graph.output("loss"), {});
  return compiled(std::move(graph), one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh))),
                  batch_over_dp(), micro_batches);
}

bool has_weights(const LocalInt& value) {
  return std::any_of(value.terms.begin(), value.terms.end(), [](const LocalInt::Term& term) {
    return std::any_of(term.split.axes.begin(), term.split.axes.end(),
                       [](const AxisPart& axis) { return !axis.weights.empty(); });
  });
}

TEST(PlacementCheck, PassesPartsWithWeights) {
  for (const char* mesh : {"dp=2:1", "dp=1:3 tp=2"})
    for (const int64_t micro_batches : {1, 2}) {
      const Case given = weighted(mesh, micro_batches);
      EXPECT_EQ(placement_check_finding(given, given.tasks), "") << mesh;
    }
}

TEST(PlacementCheck, FindsAnotherWeightInAKernelParameter) {
  const Case given = weighted("dp=2:1", 1);
  for (const std::vector<int64_t>& planted : {std::vector<int64_t>{}, {1, 2}, {3, 1}})
    expect_found_in_steps(
        given,
        [](const KernelStep& step) {
          return std::any_of(step.call->ints.begin(), step.call->ints.end(), has_weights);
        },
        [&](TaskGraph&, KernelForm& step) {
          step.call.change([&](KernelCall& call) {
            for (LocalInt& value : call.ints)
              for (LocalInt::Term& term : value.terms)
                for (AxisPart& axis : term.split.axes) axis.weights = planted;
          });
        },
        AllOf(kFound, HasSubstr("where its operator has")));
}

TEST(PlacementCheck, FindsAnExchangeOfPartsWithOtherWeights) {
  const Case given = weighted("dp=2:1", 1);
  expect_found(
      given, exchanges_where(given.tasks, [](const Task&) { return true; }),
      [](TaskGraph&, TaskForm& task, size_t) {
        task.parts.front().exchange.from.mesh = std::make_shared<const Mesh>(parse_mesh("dp=1:2"));
      },
      kFound);
}

// ---- reductions over ranks ----

TEST(PlacementCheck, FindsAMissingReduction) {
  for (const Case& given : {std::cref(divided()), std::cref(pipelined())})
    expect_found(
        given, exchanges_where(given.tasks, resolves<Task>),
        [](TaskGraph& tasks, TaskForm& task, size_t) { leave_out(tasks, task); }, kFound);
}

TEST(PlacementCheck, FindsAMissingReductionThatIsNotDeclared) {
  for (const Case& given : {std::cref(divided()), std::cref(pipelined())})
    expect_found(
        given, exchanges_where(given.tasks, resolves<Task>),
        [](TaskGraph& tasks, TaskForm& task, size_t) {
          reg_of(tasks, task.inputs.front()).attr.partial.clear();
          leave_out(tasks, task);
        },
        AllOf(kFound, HasSubstr("partial values")));
}

TEST(PlacementCheck, FindsAReductionThatIsRepeated) {
  const Case& given = divided();
  expect_found(
      given, exchanges_where(given.tasks, resolves<Task>),
      [](TaskGraph& tasks, TaskForm& task, size_t) {
        const auto& forms = tasks.tasks.forms();
        const TaskId id(static_cast<int>(&task - forms.elements().data()));  // one task a form
        TaskForm second = task;
        const RegisterForm target = reg_of(tasks, task.outputs.front());
        const RegisterIndex made = tasks.registers.push_back(target);
        const RegisterFormIndex again = tasks.registers.numbering().form_of(made);
        read_instead(tasks, task.outputs.front(), again);
        second.inputs = task.outputs;
        second.outputs = {again};
        tasks.order.insert(std::find(tasks.order.begin(), tasks.order.end(), id) + 1,
                           tasks.tasks.end_index());
        tasks.tasks.push_back(std::move(second));
      },
      AllOf(kFound, HasSubstr("takes '"), HasSubstr("{partial ")));
}

TEST(PlacementCheck, FindsReplicasThatAreAdded) {
  const Case& given = divided();
  const auto has_copies = [](const Task& task) { return resolves(task) && idle_axis(task) >= 0; };
  for (const bool declared : {false, true})
    expect_found(
        given, exchanges_where(given.tasks, has_copies),
        [&](TaskGraph& tasks, TaskForm& task, size_t) {
          auto& partial = task.parts[0].exchange.from.partial;
          partial.push_back({idle_axis(task), partial.front().reduce});
          std::sort(partial.begin(), partial.end(),
                    [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
          if (declared) reg_of(tasks, task.inputs.front()).attr = task.parts[0].exchange.from;
        },
        kFound);
}

TEST(PlacementCheck, FindsAReductionOverTheWrongAxis) {
  const Case& given = divided();
  const auto has_another = [](const Task& task) { return resolves(task) && idle_axis(task) >= 0; };
  for (const bool declared : {false, true})
    expect_found(
        given, exchanges_where(given.tasks, has_another),
        [&](TaskGraph& tasks, TaskForm& task, size_t) {
          task.parts[0].exchange.from.partial.front().axis = idle_axis(task);
          if (declared) reg_of(tasks, task.inputs.front()).attr = task.parts[0].exchange.from;
        },
        kFound);
}

TEST(PlacementCheck, FindsTheWrongReduction) {
  const Case& given = divided();
  expect_found(
      given, exchanges_where(given.tasks, resolves<Task>),
      [](TaskGraph& tasks, TaskForm& task, size_t) {
        PartialAxis& axis = task.parts[0].exchange.from.partial.front();
        axis.reduce = axis.reduce == ReduceOp::kMax ? ReduceOp::kSum : ReduceOp::kMax;
        reg_of(tasks, task.inputs.front()).attr = task.parts[0].exchange.from;
      },
      AllOf(kFound, HasSubstr("partial values")));
}

TEST(PlacementCheck, FindsAnExchangeInTheWrongDirection) {
  const Case& given = divided();
  expect_found(
      given, exchanges_where(given.tasks, [](const Task&) { return true; }),
      [](TaskGraph&, TaskForm& task, size_t) {
        std::swap(task.parts[0].exchange.from, task.parts[0].exchange.to);
      },
      AllOf(kFound, HasSubstr("exchange '")));
}

TEST(PlacementCheck, NamesTheOpThatTakesPartialValues) {
  const Case given = one_product();
  TaskGraph tasks = given.tasks;
  for (const auto& [task, step] : exchanges_where(tasks, resolves<Task>))
    leave_out(tasks, tasks.tasks.form(task));
  // The first half of the reduction, the reduce-scatter, is dropped above; this drops the
  // all-gather of its parts.
  for (const auto& [task, step] : exchanges_where(
           tasks, [](const Task& t) { return t.parts[0].exchange.from.partial.empty(); }))
    if (tasks.tasks[task].name.text().find("product") != std::string::npos)
      leave_out(tasks, tasks.tasks.form(task));
  EXPECT_EQ(placement_check_finding(given, tasks),
            "internal error: placements: op 'y' takes partial values over tp as input 0 and is not "
            "linear in exactly that");
}

// ---- operands ----

TEST(PlacementCheck, FindsSwappedOperands) {
  const Case& given = divided();
  expect_found_in_steps(
      given,
      [](const KernelStep& step) {
        return step.inputs.size() == 2 && step.inputs[0] != step.inputs[1];
      },
      [](TaskGraph&, KernelForm& step) { std::swap(step.inputs[0], step.inputs[1]); },
      AllOf(kFound, HasSubstr("as input 0")));
}

TEST(PlacementCheck, FindsAKernelWithTheNameOfAnotherOp) {
  const Case& given = divided();
  expect_found_in_steps(
      given, [](const KernelStep& step) { return step.op == "blocks.0.ffn.up.dot"; },
      [](TaskGraph&, KernelForm& step) { step.op = "blocks.1.ffn.up.dot"; },
      HasSubstr("op 'blocks.1.ffn.up.dot' takes 'blocks.1.norm2"));
}

TEST(PlacementCheck, FindsARegisterThatIsDeclaredInAnotherPlacement) {
  const Case& given = divided();
  int planted = 0;
  for (RegisterIndex r(0); r < given.tasks.registers.end_index(); r = r + 17) {
    TaskGraph tasks = given.tasks;
    RegisterForm& reg = tasks.registers.form(r);
    const bool is_workspace =
        !steps_where(tasks, [&](const KernelStep& step) { return step.workspace == r; }).empty();
    if (is_workspace || reg.attr.dims.empty() || reg.attr.uses(1)) continue;
    reg.attr.dims.back().axes.push_back(1);
    ++planted;
    EXPECT_THAT(placement_check_finding(given, tasks), kFound) << reg.name;
  }
  EXPECT_GT(planted, 15);
}

TEST(PlacementCheck, FindsADimThatIsDividedInsideItsUnits) {
  Graph graph;
  Builder b(graph);
  graph.add_output("y", b.reshape(b.input("x", {DType::kF32, {12}}), {3, 4}, "y"));
  // Of three heads of four elements the first rank has two: [0, 8).
  const Case given = compiled(graph, one_mesh(std::make_shared<const Mesh>(parse_mesh("tp=2"))),
                              {shard_tensor("x", "P(\"tp\")"), shard_tensor("y", "P(\"tp\")")}, 1);
  const auto divides_by_units = [](const Task& task) {
    return !task.parts[0].exchange.to.dims.empty() && task.parts[0].exchange.to.dims[0].unit == 4;
  };
  expect_found(
      given, exchanges_where(given.tasks, divides_by_units),
      [](TaskGraph& tasks, TaskForm& task, size_t) {
        task.parts[0].exchange.to.dims[0].unit = 1;
        reg_of(tasks, task.outputs.front()).attr.dims[0].unit = 1;
      },
      HasSubstr("op 'y' has indices [0, 8) of factor"));
}

// ---- parameters ----

TEST(PlacementCheck, FindsAWrongScale) {
  for (const Case& given : {std::cref(divided()), std::cref(pipelined())})
    expect_found_in_steps(
        given,
        [](const KernelStep& step) {
          return !step.call->reals.empty() && step.call->reals[0] != 0;
        },
        [](TaskGraph&, KernelForm& step) {
          step.call.change([](KernelCall& call) { call.reals[0] /= 2; });
        },
        AllOf(kFound, HasSubstr("with other numbers than its operator")));
}

/// Whether a parameter of the kernel depends on the coordinate of the rank.
bool depends_on_coordinate(const KernelStep& step) {
  return std::any_of(step.call->ints.begin(), step.call->ints.end(),
                     [](const LocalInt& i) { return !i.is_constant(); });
}

TEST(PlacementCheck, FindsAWrongOffset) {
  for (const Case& given : {std::cref(divided()), std::cref(pipelined())})
    expect_found_in_steps(
        given, depends_on_coordinate,
        [](TaskGraph&, KernelForm& step) {
          step.call.change([](KernelCall& call) {
            for (LocalInt& value : call.ints)
              if (!value.is_constant())
                value = value.at(Coordinate{0, 0});  // the value of the first rank
          });
        },
        AllOf(kFound, HasSubstr("as parameter")));
}

TEST(PlacementCheck, FindsTheOffsetOfAnotherMicroBatch) {
  const Case& given = pipelined();
  expect_found_in_steps(
      given, depends_on_coordinate,
      [](TaskGraph&, KernelForm& step) {
        step.call.change([](KernelCall& call) {
          for (LocalInt& value : call.ints)
            if (!value.is_constant()) value.constant += 2 * value.terms.front().split.unit;
        });
      },
      AllOf(kFound, HasSubstr("as parameter")));
}

TEST(PlacementCheck, FindsAnotherKernel) {
  const Case& given = divided();
  expect_found_in_steps(
      given, [](const KernelStep& step) { return step.call->kernel == "binary.add"; },
      [](TaskGraph&, KernelForm& step) {
        step.call.change([](KernelCall& call) { call.kernel = "binary.sub"; });
      },
      AllOf(kFound, HasSubstr("calls binary.sub")));
}

// ---- micro-batches ----

bool is_sum_over_micro_batches(const KernelStep& step) {
  return step.purpose == KernelPurpose::kAccumulate;
}

TEST(PlacementCheck, FindsAnotherPurpose) {
  for (KernelPurpose purpose :
       {KernelPurpose::kAccumulate, KernelPurpose::kCopyBefore, KernelPurpose::kCopyNext,
        KernelPurpose::kTakeChunk, KernelPurpose::kJoinChunks})
    expect_found_in_steps(
        divided(), [](const KernelStep& step) { return step.purpose == KernelPurpose::kOp; },
        [&](TaskGraph&, KernelForm& step) { step.purpose = purpose; }, kFound);
  expect_found_in_steps(
      pipelined(), is_sum_over_micro_batches,
      [](TaskGraph&, KernelForm& step) { step.purpose = KernelPurpose::kOp; },
      AllOf(kFound, HasSubstr("is not an op of the program")));
}

TEST(PlacementCheck, FindsAMicroBatchThatIsOmitted) {
  const Case& given = pipelined();
  const auto is_last = [&](const KernelStep& step) {
    return is_sum_over_micro_batches(step) &&
           reg_of(given.tasks, step.outputs[0]).micro_batch.index < 0;
  };
  expect_found_in_steps(
      given, is_last,
      [&](TaskGraph& tasks, KernelForm& step) {
        // (0 + 1) + 2 becomes 0 + 2.
        for (const TaskForm& task : tasks.tasks.forms())
          for (const KernelForm& before : task.steps)
            if (before.outputs.front() == step.inputs[0]) {
              step.inputs[0] = before.inputs[0];
              return;
            }
      },
      AllOf(kFound, HasSubstr("is declared once a step and holds partial values of micro-"
                              "batches that are not all added")));
}

TEST(PlacementCheck, FindsAMicroBatchThatIsAddedTwice) {
  const Case& given = pipelined();
  expect_found_in_steps(
      given, [&](const KernelStep& step) { return is_sum_over_micro_batches(step); },
      [](TaskGraph&, KernelForm& step) { step.inputs[1] = step.inputs[0]; },
      AllOf(kFound, HasSubstr("twice")));
}

TEST(PlacementCheck, FindsASumOverMicroBatchesThatTakesTheMaximum) {
  const Case& given = pipelined();
  expect_found_in_steps(
      given, [&](const KernelStep& step) { return is_sum_over_micro_batches(step); },
      [](TaskGraph&, KernelForm& step) {
        step.call.change([](KernelCall& call) { call.kernel = "binary.max"; });
      },
      HasSubstr("takes the sum over micro-batches and calls binary.max"));
}

TEST(PlacementCheck, FindsTheRowsOfAnotherMicroBatch) {
  const Case& given = pipelined();
  const auto reads_the_second = [&](const KernelStep& step) {
    return !step.inputs.empty() && reg_of(given.tasks, step.inputs[0]).micro_batch.index == 1 &&
           !is_sum_over_micro_batches(step);
  };
  expect_found_in_steps(
      given, reads_the_second,
      [](TaskGraph& tasks, KernelForm& step) {
        const RegisterForm& own = reg_of(tasks, step.inputs[0]);
        const std::string stale = own.name.text().substr(0, own.name.text().find(" #")) + " #0" +
                                  own.name.text().substr(own.name.text().find(" #") + 3);
        for (RegisterFormIndex r : tasks.registers.forms().indices())
          if (tasks.registers.forms()[r].name == stale) step.inputs[0] = r;
      },
      kFound);
}

TEST(PlacementCheck, FindsAnInputThatBeginsAtOtherRows) {
  const Case& given = pipelined();
  int planted = 0;
  for (size_t i = 0; i < given.tasks.inputs.size(); ++i) {
    TaskGraph tasks = given.tasks;
    RegisterForm& reg = tasks.registers.form(tasks.inputs[i].value);
    if (reg.micro_batch.index < 0) continue;
    reg.micro_batch.begin += 1;
    ++planted;
    EXPECT_THAT(placement_check_finding(given, tasks), HasSubstr("is declared to begin at row"))
        << reg.name;
  }
  EXPECT_GT(planted, 0);
}

// ---- the end of a step ----

TEST(PlacementCheck, FindsAVariableThatDoesNotBecomeItsNextValue) {
  const Case& given = divided();
  for (size_t v = 0; v < given.tasks.variables.size(); v += 5) {
    TaskGraph tasks = given.tasks;
    for (RegisterIndex r : tasks.registers.indices())
      if (tasks.registers[r].variable == static_cast<int>(v) && r != tasks.variables[v].value)
        tasks.registers.form(r).storage = Register::Storage::kArena;
    EXPECT_THAT(placement_check_finding(given, tasks),
                HasSubstr("variable '" + tasks.variables[v].name + "' ends the step as '" +
                          tasks.variables[v].name + "'"));
  }
}

TEST(PlacementCheck, FindsAWrongAndAMissingOutput) {
  const Case given = one_product();
  TaskGraph tasks = given.tasks;
  tasks.tasks.forms().back().inputs.clear();
  tasks.results[0].second = tasks.inputs[0].value;
  EXPECT_EQ(placement_check_finding(given, tasks),
            "internal error: placements: output 'y' is 'y' and returns 'x'");
  tasks.results.clear();
  EXPECT_EQ(placement_check_finding(given, tasks),
            "internal error: placements: output 'y' is not returned");
}

}  // namespace
}  // namespace tessera
