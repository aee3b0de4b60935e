// Prints the examples of docs/tour.md: one matmul, its gradient and its update, from the serial
// graph to two ranks; then two layers on two meshes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "base/text/text.h"
#include "compiler/lower/lower.h"
#include "compiler/placement_check/placement_check.h"
#include "document_examples.h"
#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"
#include "ir/ops/interpreter.h"
#include "observed_run.h"
#include "two_layers.h"

namespace tessera {
namespace {

/// y = x w; loss = sum of y squared; w = w - rate * dw.
Graph training_step() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", parse_tensor_type("f32[4,6]"));
  const ValueId w =
      builder.variable("w", parse_tensor_type("f32[6,2]"), Initializer::constant(0.5));
  const ValueId y = builder.dot(x, w, "mk,kn->mn", "y");
  const ValueId loss = builder.reduce_sum(builder.unary("square", y, "squares"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  add_training(builder, loss, {.kind = OptimizerKind::kSgd});
  return graph;
}

constexpr int kSteps = 3;

struct Tour {
  Graph graph = training_step();
  std::map<std::string, std::string> stages;  // the dump of each pass of compile()
  Compiled compiled;
  Tensor x{parse_tensor_type("f32[4,6]")};
  Tensor rate = Tensor::scalar(1.0f / 128);

  Tour() {
    const auto mesh = std::make_shared<const Mesh>(parse_mesh("dp=2"));
    compiled = compile(graph, mesh, {shard_tensor("x", "P(\"dp\")")},
                       {.dump = [&](std::string_view stage, const std::string& text) {
                         stages[std::string(stage)] = text;
                       }});
    const auto values = x.values<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i / 6 + i % 6) % 4);
  }

  std::vector<ObservedStep> run_on_two_ranks() const {
    Runtime runtime(compiled.sharded.meshes[0].mesh);
    LoadedProgram& program = runtime.load(std::make_shared<const TaskGraph>(compiled.tasks));
    runtime.initialize(program, 1);
    std::vector<ObservedStep> steps;
    for (int step = 0; step < kSteps; ++step) {
      const Tensor number = Tensor::scalar(step);
      steps.push_back(
          run_observed(runtime, program, {{"x", &x}, {"learning_rate", &rate}, {"step", &number}}));
    }
    return steps;
  }

  /// The losses of the reference interpreter.
  std::vector<double> run_serially() const {
    ReferenceValues state = initial_variables(graph, 1);
    std::vector<double> losses;
    for (int step = 0; step < kSteps; ++step) {
      state["x"] = to_reference(x);
      state["learning_rate"] = to_reference(rate);
      state["step"] = to_reference(Tensor::scalar(step));
      const ReferenceValues values = interpret(graph, state);
      losses.push_back(values.at("loss").values[0]);
      state = next_variables(graph, values);
    }
    return losses;
  }
};

/// The lines in which two texts of equal length differ: "- before", "+ after".
std::string changed_lines(const std::string& before, const std::string& after) {
  const std::vector<std::string> a = split_text(before, '\n'), b = split_text(after, '\n');
  ensure(a.size() == b.size(), "the pass adds no lines");
  std::string text;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) text += "- " + a[i] + "\n+ " + b[i] + "\n";
  return text;
}

/// The error when the update reads its step unreduced, as if there were no all-reduce.
std::string missing_reduction_text(const Tour& tour) {
  TaskGraph tasks = tour.compiled.tasks;
  RegisterFormIndex addends;
  for (const TaskForm& task : tasks.tasks.forms())
    for (const KernelForm& step : task.steps)
      if (step.op == "w.sgd.step") addends = step.outputs[0];
  for (TaskForm& task : tasks.tasks.forms())
    for (KernelForm& step : task.steps)
      if (step.op == "w.sgd.next") step.inputs[1] = addends;
  link(tasks);
  try {
    check_placements(tour.compiled.graph, tasks, 1);
    return "nothing\n";
  } catch (const InternalError& error) {
    return error.what() + std::string("\n");
  }
}

std::string first_step_text(const ObservedStep& step) {
  std::string text;
  for (const char* name : {"x", "w", "y", "loss", "loss []", "y.grad.b", "w.sgd.step",
                           "w.sgd.step [*, *]", "w.sgd.next"})
    for (size_t rank = 0; rank < 2; ++rank) {
      const Held& held = step.held.at(name)[rank];
      text += fmt::format("{:17}  rank {}  {:10}  {}\n", rank == 0 ? name : "", rank,
                          to_text(held.box), values_text(held));
    }
  return text;
}

std::string losses_text(const std::vector<ObservedStep>& steps, const std::vector<double>& serial) {
  std::string text = "step  loss of two ranks   serial reference\n";
  for (size_t i = 0; i < steps.size(); ++i)
    text += fmt::format("{:4}  {:17.4f}  {:17.4f}\n", i,
                        steps[i].results.at("loss").values<float>()[0], serial[i]);
  return text;
}

TEST(Tour, ShowsWhatEachStageMakesAndWhatTwoRanksCompute) {
  const Tour tour;
  const std::vector<ObservedStep> steps = tour.run_on_two_ranks();
  const std::vector<double> serial = tour.run_serially();
  const auto dump = [&](const std::string& stage) {
    return [&tour, stage] { return tour.stages.at(stage); };
  };
  std::vector<DocumentExample> examples = {
      {"serial", dump("serial"), {"y = dot_general(x, w)", "next w = w.sgd.next"}},
      {"fold", dump("fold")},
      {"algebra", dump("algebra"), {"squares.grad.x is squares.grad.mul_scalar"}},
      {"dead-code", dump("dead-code")},
      {"propagate",
       dump("propagate"),
       {"y f32[4@dp, 2]\n", "y.grad.b f32[6, 2] {partial sum: dp}\n"}},
      {"partition",
       dump("partition"),
       {"w.sgd.step [*, *] = all-reduce(w.sgd.step): f32[6, 2] @optimizer"}},
      {"in-place",
       [&] { return changed_lines(tour.stages.at("partition"), tour.stages.at("in-place")); },
       {"+ w.sgd.next = binary.sub(w, w.sgd.step [*, *]): f32[6, 2] @optimizer in place of w\n"}},
      {"arena", dump("arena")},
      {"tasks",
       dump("tasks"),
       {"exchange 'all-reduce w.sgd.step [*, *] and 1 more' @optimizer",
        "w.sgd.next: f32[6, 2] at variable w\n"}},
      {"check", dump("check")},
      {"placements", dump("placements")},
      {"missing-reduction",
       [&] { return missing_reduction_text(tour); },
       {"op 'w.sgd.next' takes partial values over dp"}},
      {"first-step", [&] { return first_step_text(steps[0]); }},
      // y = 0.5 * row sums 7, 9, 11, 9, twice: 2 (3.5^2 + 4.5^2 + 5.5^2 + 4.5^2) = 166
      {"losses",
       [&] { return losses_text(steps, serial); },
       {"   0           166.0000           166.0000\n"}}};
  const TwoLayers layers;
  for (DocumentExample& example : examples_of(layers)) examples.push_back(std::move(example));
  expect_examples("docs/tour.md", examples);
}

}  // namespace
}  // namespace tessera
