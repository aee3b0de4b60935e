// Presets that divide the state of the optimizer, and the parameters, over data-parallel ranks, in
// whole runs.
#include <gtest/gtest.h>

#include <set>

#include "planner/presets/presets.h"
#include "simulator/step/rank_traffic.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

Plan zero_preset(const RunConfig& config, const std::string& text) {
  return preset_plan(parse_preset(text), training_graph(config));
}

struct Held {
  double parameters = 0, state = 0;  // elements of rank 0
};

Held held_with(const RunConfig& config, const std::string& text) {
  const Graph graph = training_graph(config);
  const PlacedGraph placed = placements(graph, zero_preset(config, text));
  Held held;
  for (const Variable& variable : placed.graph.variables()) {
    const DistAttr& attr = placed.sharded.at(variable.value);
    const auto elements = static_cast<double>(element_count(
        attr.local_shape(placed.graph.type(variable.value).shape, attr.mesh->coordinate_at(0))));
    (variable.trainable ? held.parameters : held.state) += elements;
  }
  return held;
}

// Rows of biases that a rank cannot share are left whole, which is little.
TEST(Zero, LeavesARankItsPartOfTheState) {
  const RunConfig config = tiny_gpt();
  const Held whole = held_with(config, "dp=4"), one = held_with(config, "dp=4,zero=1"),
             three = held_with(config, "dp=4,zero=3");
  EXPECT_NEAR(one.state, whole.state / 4, 0.01 * whole.state);
  EXPECT_EQ(one.parameters, whole.parameters);
  EXPECT_NEAR(three.state, whole.state / 4, 0.01 * whole.state);
  EXPECT_NEAR(three.parameters, whole.parameters / 4, 0.01 * whole.parameters);
}

TEST(Zero, DividesWhatTensorParallelismLeaves) {
  const RunConfig config = tiny_gpt();
  const Held tensor = held_with(config, "dp=2,tp=2"), zero = held_with(config, "dp=2,tp=2,zero=3");
  EXPECT_NEAR(zero.state, tensor.state / 2, 0.01 * tensor.state);
  EXPECT_NEAR(zero.parameters, tensor.parameters / 2, 0.01 * tensor.parameters);
}

// State is divided inside of a group of fsdp and the same in all of them.
TEST(Zero, DividesInsideOfAGroupAlone) {
  const RunConfig config = tiny_gpt();
  const Held whole = held_with(config, "dp=8"), hybrid = held_with(config, "dp=2,fsdp=4"),
             sums = held_with(config, "dp=2,fsdp=4,zero=2");
  EXPECT_NEAR(hybrid.state, whole.state / 4, 0.01 * whole.state);
  EXPECT_NEAR(hybrid.parameters, whole.parameters / 4, 0.01 * whole.parameters);
  EXPECT_NEAR(sums.state, whole.state / 4, 0.01 * whole.state);
  EXPECT_EQ(sums.parameters, whole.parameters);
}

// The ops of a step read 16-bit copies, so no rank needs the f32 parameters of the others.
TEST(Zero, DividesMasterWeightsOfMixedPrecision) {
  RunConfig config = tiny_gpt();
  config.train.precision.dtype = DType::kBF16;
  const Held whole = held_with(config, "dp=4,zero=1,master_weights=whole"),
             divided = held_with(config, "dp=4,zero=1");
  EXPECT_NEAR(divided.parameters, whole.parameters / 4, 0.02 * whole.parameters);
  EXPECT_EQ(divided.state, whole.state);
}

/// Bytes that a rank sends of gradients, and that it keeps of their sums over micro-batches.
struct Gradients {
  int64_t sent = 0, kept = 0;
};

Gradients gradients_with(const RunConfig& config, const std::string& text) {
  const Graph graph = training_graph(config);
  const TaskGraph tasks = compile(graph, zero_preset(config, text)).tasks;
  Gradients gradients;
  const std::string scattered = "head.dot.grad.b [@dp, *]";
  for (const Register& reg : tasks.registers) {
    const std::string name = reg.name.text();
    if (name == scattered || name.starts_with(scattered + " #")) gradients.sent += reg.size.value();
    if (name == "head.dot.grad.b.sum #1") gradients.kept = reg.size.value();
  }
  return gradients;
}

// Of zero=1 the sum of the whole gradients is scattered once a step; of zero=2 each micro-batch is,
// and its sum is a part. With one micro-batch there is no difference.
TEST(Zero, TwoScattersTheGradientsOfEveryMicroBatchAndKeepsPartsOfTheirSum) {
  const RunConfig config = tiny_gpt();
  const Gradients one = gradients_with(config, "dp=2,zero=1,micro_batches=4"),
                  two = gradients_with(config, "dp=2,zero=2,micro_batches=4");
  EXPECT_GT(one.sent, 0);
  EXPECT_EQ(two.sent, 4 * one.sent);
  EXPECT_GT(one.kept, 0);
  EXPECT_EQ(two.kept, one.kept / 2);
  EXPECT_EQ(gradients_with(config, "dp=2,zero=2").sent, gradients_with(config, "dp=2,zero=1").sent);
}

// ZeRO with Adam in f32: 4 bytes of each parameter, 4 of the sum of its gradients, 8 of its state,
// of which level 1 divides the state, level 2 the sums, too, and level 3 all (Rajbhandari et al.,
// SC 2020).
TEST(Zero, LeavesARankTheBytesOfTheFormulaWithinTwoPercent) {
  RunConfig config = tiny_gpt();
  config.model.width = 256;
  config.model.layers = 4;
  config.train.batch = 16;
  const Graph graph = training_graph(config);
  double parameters = 0;
  std::set<std::string> types;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) {
      parameters += static_cast<double>(element_count(graph.type(variable.value).shape));
      types.insert(to_text(graph.type(variable.value)));
    }
  constexpr double kRanks = 4;
  for (int zero = 0; zero <= 3; ++zero) {
    SCOPED_TRACE(zero);
    const std::string text = "dp=4,micro_batches=4,zero=" + std::to_string(zero);
    const Held held = held_with(config, text);
    EXPECT_NEAR(held.parameters, parameters / (zero == 3 ? kRanks : 1), 0.02 * held.parameters);
    EXPECT_NEAR(held.state, 2 * parameters / (zero >= 1 ? kRanks : 1), 0.02 * held.state);
    const TaskGraph tasks = compile(graph, zero_preset(config, text)).tasks;
    double sums = 0;
    for (const Register& reg : tasks.registers)
      if (reg.name.text().ends_with(".sum #1") && types.contains(to_text(*reg.type)))
        sums += static_cast<double>(reg.size.value()) / 4;
    EXPECT_NEAR(sums, parameters / (zero >= 2 ? kRanks : 1), 0.02 * sums);
  }
}

/// The bytes that a rank sends over the axis dp in a step, in the mean of the ranks.
double zero_sent_over_dp(const RunConfig& config, const std::string& text) {
  const Plan plan = zero_preset(config, text);
  const TaskGraph tasks = compile(training_graph(config), plan).tasks;
  double bytes = 0;
  for (const PairTraffic& pair : rank_traffic(tasks))
    if (pair.axes == "dp") bytes += static_cast<double>(pair.bytes.value());
  return bytes / static_cast<double>(plan.meshes.front().mesh->ranks().size());
}

// Of P bytes of parameters on N ranks with k micro-batches, each rank sends (N - 1) / N of: 2 P, a
// reduce-scatter of the gradients and an all-gather, of zero 0 and 1; (k + 1) P of zero 2, which
// scatters the gradients of each micro-batch; 3 k P of zero 3, which gathers parameters in the
// forward and the backward of each: 1.5 times plain data parallelism for k = 1. `tp` divides P.
TEST(Zero, SendsTheBytesOfTheBoundWithinTwoPercent) {
  RunConfig config = tiny_gpt();
  config.model.width = 256;
  config.model.layers = 4;
  config.train.batch = 16;
  double parameters = 0;
  const Graph graph = training_graph(config);
  for (const Variable& variable : graph.variables())
    if (variable.trainable)
      parameters += 4 * static_cast<double>(element_count(graph.type(variable.value).shape));
  struct Degrees {
    const char* text;
    double data, tensor;
  };
  for (const Degrees& degrees : {Degrees{"dp=4", 4, 1}, Degrees{"dp=2,tp=2", 2, 2}})
    for (const int k : {1, 4})
      for (int zero = 0; zero <= 3; ++zero) {
        const std::string text = std::string(degrees.text) + ",accumulate=" + std::to_string(k) +
                                 ",zero=" + std::to_string(zero);
        const double times = zero < 2 ? 2 : zero == 2 ? k + 1 : 3 * k;
        const double bound = times * parameters / degrees.tensor * (1 - 1 / degrees.data);
        EXPECT_NEAR(zero_sent_over_dp(config, text), bound, 0.02 * bound) << text;
      }
}

/// The bytes that a rank receives in a step, without numbers such as the count of the loss.
int64_t exchanged_with(const RunConfig& config, const std::string& text) {
  const TaskGraph tasks = compile(training_graph(config), zero_preset(config, text)).tasks;
  int64_t bytes = 0;
  for (const Task& task : tasks.tasks)
    if (task.kind == Task::Kind::kExchange)
      for (RegisterIndex reg : task.outputs)
        if (!tasks.registers[reg].type->shape.empty()) bytes += tasks.registers[reg].size.value();
  return bytes;
}

TEST(Zero, AccumulationSendsTheGradientsOnceUnderLevelsZeroAndOne) {
  RunConfig config = tiny_gpt();
  config.train.batch = 16;
  for (const char* zero : {"", ",zero=1"}) {
    const std::string whole = std::string("dp=4") + zero;
    EXPECT_GT(exchanged_with(config, whole), 0);
    EXPECT_EQ(exchanged_with(config, whole + ",accumulate=4"), exchanged_with(config, whole));
  }
}

TEST(Zero, AccumulationIsTheProgramOfSoManyTimesTheMicroBatches) {
  const RunConfig config = tiny_gpt();
  const Graph graph = training_graph(config);
  const auto program = [&](const std::string& text) {
    return to_text(compile(graph, zero_preset(config, text)).tasks);
  };
  EXPECT_EQ(program("dp=2,accumulate=4"), program("dp=2,micro_batches=4"));
  EXPECT_EQ(program("pp=2,micro_batches=2,accumulate=2"), program("pp=2,micro_batches=4"));
}

/// By name: how the ops of the forward and the backward are divided, except for those that add up
/// gradients of parameters.
std::map<std::string, std::string> divisions_with(const RunConfig& config,
                                                  const std::string& text) {
  const PlacedGraph placed = placements(training_graph(config), zero_preset(config, text));
  std::map<std::string, std::string> divisions;
  for (const Op& op : placed.graph.ops()) {
    const bool is_gradient = std::ranges::any_of(placed.graph.variables(), [&](const auto& v) {
      return v.trainable && op.role == Role::kBackward &&
             placed.graph.type(v.value) == placed.graph.type(op.outputs.front());
    });
    if (op.role == Role::kOptimizer || is_gradient) continue;
    const OpId id = *placed.graph.find_op(op.name);
    const OpView op_view = view(placed.graph, op);
    for (int i = 0; i < std::ssize(op.inputs); ++i)
      divisions[op.name] +=
          to_text(input_attr(op_view, placed.sharded.rules[id.index], placed.sharded.at(id), i)) +
          " ";
  }
  return divisions;
}

TEST(Zero, NeverDividesAnOpThatDataParallelismDoesNotDivide) {
  for (const char* degrees :
       {"dp=4", "dp=2,tp=2", "dp=2,sp=2,micro_batches=2", "pp=2,dp=2",
        // Stages end inside of layers.
        "pp=4,dp=2,micro_batches=4", "pp=4,dp=2,micro_batches=4,recompute=full"})
    for (const char* model : {"gpt", "gpt_tied", "llama", "mlp", "lstm"}) {
      const RunConfig config = tiny_run(model);
      if (std::string(degrees).find("sp") != std::string::npos && config.model.kind != "gpt")
        continue;
      const auto plain = divisions_with(config, degrees);
      for (const char* zero : {",zero=1", ",zero=2", ",zero=3"})
        EXPECT_EQ(divisions_with(config, std::string(degrees) + zero), plain)
            << model << " " << degrees << zero;
    }
}

// A plan that is written with its placements in place of marks makes the same program.
TEST(Zero, TwoIsTheSameProgramWhenResolved) {
  const RunConfig config = tiny_gpt();
  const Graph graph = training_graph(config);
  for (const char* text : {"dp=2,zero=2,micro_batches=4", "dp=2,tp=2,zero=2,micro_batches=2"}) {
    const Plan plan = zero_preset(config, text);
    const Plan written = explicit_plan(config, plan);
    EXPECT_TRUE(written.marks.empty());
    EXPECT_EQ(to_text(compile(graph, plan).tasks), to_text(compile(graph, written).tasks)) << text;
  }
}

}  // namespace
}  // namespace tessera
