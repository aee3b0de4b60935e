#include "sleeping_pipeline.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "base/threads/clock_time.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"
#include "ir/ops/detail.h"
#include "ir/ops/operator_set.h"

namespace tessera {
namespace {

using detail::add_factor;
using Clock = std::chrono::steady_clock;

TensorType pipeline_f32(Shape shape) {
  return {DType::kF32, std::move(shape)};
}

/// Sleeps for `seconds`. The operating system wakes a thread a little late, so the last part is
/// spent polling the clock.
void sleep_for(double seconds) {
  constexpr std::chrono::microseconds kLate{300};
  const auto end = Clock::now() + clock_time(Seconds(seconds));
  std::this_thread::sleep_until(end - kLate);
  while (Clock::now() < end) std::this_thread::yield();
}

float* floats(std::byte* data) {
  return reinterpret_cast<float*>(data);
}
const float* floats(const std::byte* data) {
  return reinterpret_cast<const float*>(data);
}

// Rules: rows [N, E] and a row [E]

ShardingRule rule_of_rows(const OpView& op) {
  ShardingRule rule;
  const Shape& x = op.inputs[0].shape;
  const OperandFactors rows = {{add_factor(rule, "n", x[0]), 1}, {add_factor(rule, "e", x[1]), 1}};
  rule.inputs = {rows};
  if (op.inputs.size() > 1) rule.inputs.push_back({rows[1]});
  rule.outputs = {rows};
  return rule;
}

ShardingRule rule_of_sum(const OpView& op) {
  ShardingRule rule;
  const Shape& x = op.inputs[0].shape;
  const OperandFactors rows = {{add_factor(rule, "n", x[0], FactorKind::kReduction), 1},
                               {add_factor(rule, "e", x[1]), 1}};
  rule.inputs = {rows};
  rule.outputs = {{rows[1]}};
  rule.linear = {{0}};
  return rule;
}

// Kernels

BoundKernel bind_rows(const LocalCall& call) {
  const Shape shape = call.inputs[0].shape;
  const bool adds = call.inputs.size() > 1;
  return {[shape, adds, seconds = call.reals.at(0)](const KernelBuffers& buffers) {
            sleep_for(seconds);
            for (int64_t n = 0; n < shape[0]; ++n)
              for (int64_t e = 0; e < shape[1]; ++e)
                floats(buffers.outputs[0])[n * shape[1] + e] =
                    floats(buffers.inputs[0])[n * shape[1] + e] +
                    (adds ? floats(buffers.inputs[1])[e] : 0);
          },
          Bytes(0)};
}

BoundKernel bind_sum(const LocalCall& call) {
  const Shape shape = call.inputs[0].shape;
  return {[shape, seconds = call.reals.at(0)](const KernelBuffers& buffers) {
            sleep_for(seconds);
            for (int64_t e = 0; e < shape[1]; ++e) floats(buffers.outputs[0])[e] = 0;
            for (int64_t n = 0; n < shape[0]; ++n)
              for (int64_t e = 0; e < shape[1]; ++e)
                floats(buffers.outputs[0])[e] += floats(buffers.inputs[0])[n * shape[1] + e];
          },
          Bytes(0)};
}

void reference_of_rows(const ReferenceCall& call) {
  const auto width = static_cast<size_t>(call.inputs[0]->type.shape[1]);
  for (size_t i = 0; i < call.outputs[0].values.size(); ++i)
    call.outputs[0].values[i] = call.inputs[0]->values[i] +
                                (call.inputs.size() > 1 ? call.inputs[1]->values[i % width] : 0);
}

void reference_of_sum(const ReferenceCall& call) {
  const size_t width = call.outputs[0].values.size();
  for (size_t i = 0; i < call.inputs[0]->values.size(); ++i)
    call.outputs[0].values[i % width] += call.inputs[0]->values[i];
}

std::vector<double> tolerance(const ReferenceCall& call, int output) {
  return detail::rounded(call, output, static_cast<double>(call.inputs[0]->type.shape[0]));
}

template <const char* name>
KernelCall kernel(const OpView& op, std::span<const Split>) {
  return detail::kernel_call(name, {}, {op.attributes.number("seconds")});
}

constexpr char kForward[] = "sleep", kInputGradient[] = "sleep_input_gradient",
               kWeightGradient[] = "sleep_weight_gradient";

detail::Gradients gradient(Builder& builder, const GradientCall& call) {
  const ValueId flow = call.output_gradients.at(0).value();
  const auto of = [&](const char* kind, const char* time, const char* operand) {
    return builder.op1(kind, {flow}, {{"seconds", call.op.attributes.number(time)}}, operand);
  };
  detail::Gradients gradients(2);
  if (call.wanted[0]) gradients[0] = of(kInputGradient, "input_gradient", "x");
  if (call.wanted[1]) gradients[1] = of(kWeightGradient, "weight_gradient", "w");
  return gradients;
}

std::vector<TensorType> same_as_first(const OpView& op) {
  return {op.inputs[0]};
}
std::vector<TensorType> one_row(const OpView& op) {
  return {pipeline_f32({op.inputs[0].shape[1]})};
}
/// The work for `auto`: as many operations as nanoseconds, in each micro-batch.
Work work(const OpView& op) {
  return {Flops(1e9 * op.attributes.number("seconds") * static_cast<double>(op.inputs[0].shape[0])),
          Bytes(0)};
}

std::shared_ptr<const OperatorSet> sleeping_operators() {
  const auto rows = [](const char* name) {
    return Operator{.name = name,
                    .infer = same_as_first,
                    .rule = rule_of_rows,
                    .work = work,
                    .reference = reference_of_rows,
                    .tolerance = tolerance};
  };
  Operator forward = rows(kForward), input_gradient = rows(kInputGradient),
           weight_gradient = rows(kWeightGradient);
  forward.kernel = kernel<kForward>;
  forward.gradient = gradient;
  input_gradient.kernel = kernel<kInputGradient>;
  weight_gradient.kernel = kernel<kWeightGradient>;
  weight_gradient.infer = one_row;
  weight_gradient.rule = rule_of_sum;
  weight_gradient.reference = reference_of_sum;
  return std::make_shared<const OperatorSet>(
      std::vector{forward, input_gradient, weight_gradient},
      std::vector<NamedKernel>{
          {kForward, bind_rows}, {kInputGradient, bind_rows}, {kWeightGradient, bind_sum}});
}

}  // namespace

Graph sleeping_graph(const std::vector<StageWork>& stages, int64_t micro_batches, int64_t width) {
  Graph graph(sleeping_operators());
  Builder b(graph);
  const ValueId x = b.input("x", pipeline_f32({micro_batches, width}));
  std::vector<ValueId> weights = {
      b.variable("first", pipeline_f32({width}), Initializer::normal(0, 1))};
  // A variable in front, so that the first stage has an input gradient to make as well.
  ValueId h = b.broadcast_leading(weights.front(), pipeline_f32({micro_batches, width}).shape,
                                  "stage.0.spread");
  h = b.add(x, h, "stage.0.first");
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::string name = "stage." + std::to_string(s);
    weights.push_back(
        b.variable("w." + std::to_string(s), pipeline_f32({width}), Initializer::normal(0, 1)));
    h = b.op1(kForward, {h, weights.back()},
              {{"seconds", stages[s].forward.value()},
               {"input_gradient", stages[s].input_gradient.value()},
               {"weight_gradient", stages[s].weight_gradient.value()}},
              name);
  }
  // otherwise the gradient would be the same for every micro-batch, and computed once
  h = b.mul(h, h);
  const ValueId loss = b.reduce_sum(h, {0, 1}, "loss");
  graph.add_output("loss", loss);
  const std::vector<ValueId> gradients = differentiate(b, loss, weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    // on the mesh of the weight
    b.derive(Role::kOptimizer, {graph.value(weights[i]).name, "update"});
    const ValueId change = b.mul_scalar(gradients[i], 0.001);
    graph.set_next(weights[i], b.sub(weights[i], change));
  }
  return graph;
}

Compiled sleeping_pipeline(const std::vector<StageWork>& stages, const SleepingStages& placed,
                           int64_t micro_batches, PipelineKind kind) {
  Meshes meshes;
  std::vector<Mark> marks;
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::string name = "stage" + std::to_string(s);
    const Rank rank = placed.ranks.empty() ? static_cast<Rank>(s) : placed.ranks[s];
    meshes.push_back({name, std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"dp"},
                                                         std::vector<Rank>{rank})});
    if (placed.mixed && rank % 2 == 1) meshes.back().device = DeviceKind::kFake;
    marks.push_back(stage("stage." + std::to_string(s) + "*", name));
  }
  return compile(sleeping_graph(stages, micro_batches, placed.width),
                 Plan{.meshes = meshes,
                      .micro_batches = micro_batches,
                      .schedule = kind,
                      .prefetch_window = placed.prefetch_window,
                      .marks = marks});
}

std::vector<Rank> ranks_for(PipelineKind kind, int devices) {
  const bool v = kind == PipelineKind::kZeroBubbleV || kind == PipelineKind::kVHalf ||
                 kind == PipelineKind::kVMin;
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < devices; ++rank) ranks.push_back(rank);
  if (!v && kind != PipelineKind::kInterleaved) return ranks;
  for (Rank rank = 0; rank < devices; ++rank) ranks.push_back(v ? devices - 1 - rank : rank);
  return ranks;
}

Seconds time_asleep(const Task& task) {
  Seconds sum{0};
  for (const KernelStep& step : task.steps)
    if (step.call->kernel.starts_with(kForward)) sum += Seconds(step.call->reals.at(0));
  return sum;
}

Simulation simulate_sleep(const std::shared_ptr<const TaskGraph>& graph, int64_t steps,
                          const FakeDeviceOptions& fake, bool barrier_between_steps) {
  const auto time = [&](Rank, TaskId id) {
    const Task& task = graph->tasks[id];
    const Seconds asleep = time_asleep(task);
    if (stream_of(*graph, task) == TaskStream::kHost) return asleep;
    // All kernels of a task are launched at once, so only the first one delays the stream.
    return Seconds(fake.launch.value() + fake.slowness * asleep.value());
  };
  return simulate(graph, time, {.steps = steps, .barrier_between_steps = barrier_between_steps});
}

}  // namespace tessera
