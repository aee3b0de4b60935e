#include "ir/models/graphs.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/models/lora.h"

namespace tessera {
namespace {

std::optional<ValueId> find_output(const Graph& graph, const std::string& name) {
  const auto& outputs = graph.outputs();
  const auto found =
      std::ranges::find_if(outputs, [&](const auto& output) { return output.first == name; });
  return found == outputs.end() ? std::nullopt : std::optional(found->second);
}

std::string output_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& [name, value] : graph.outputs()) names.push_back("'" + name + "'");
  return names.empty() ? "none" : join(names, ", ");
}

/// Checks the forward graph of a network.
class ForwardCheck {
 public:
  ForwardCheck(const Network& network, ForwardPurpose purpose, const Graph& graph)
      : network_(network), purpose_(purpose), graph_(graph) {}

  void check_loss() const {
    check_scalar(network_.loss, "the loss");
    if (!network_.count.empty()) check_scalar(network_.count, "the count of the loss");
  }

  void check_inputs(int64_t rows) const {
    if (data_inputs(graph_).empty())
      throw UserError(network_.name + " has no input", "a step trains it on rows of data",
                      "declare what it reads by Forward::input", ExitCode::kBadData);
    for (const std::string& name : data_inputs(graph_)) {
      const TensorType& type = graph_.type(*graph_.find_value(name));
      if (type.shape.size() > 0 && type.shape[0] == rows) continue;
      throw UserError("the input '" + name + "' of " + network_.name + " is " + to_text(type),
                      "every input has the " + std::to_string(rows) +
                          " rows of the batch in front, because the data gives them sample by "
                          "sample",
                      "declare it by Forward::input, with the type of one sample",
                      ExitCode::kBadData);
    }
  }

  void check_targets() const {
    if (network_.targets.empty()) return;
    const auto targets = graph_.find_value(network_.targets);
    if (!targets || !graph_.is_input(*targets))
      throw UserError(network_.name + " has no input '" + network_.targets + "'",
                      "Network::targets names the input whose elements a step counts",
                      "name an input of the training graph, or leave it empty to count rows",
                      ExitCode::kBadData);
    if (!network_.ignored_target || graph_.type(*targets).dtype == DType::kI32) return;
    throw UserError("the targets '" + network_.targets + "' of " + network_.name + " are " +
                        to_text(graph_.type(*targets)),
                    "Network::ignored_target is a value of i32", "leave it unset",
                    ExitCode::kBadData);
  }

  void check_metrics() const {
    for (const Metric& metric : network_.metrics) {
      const std::string role = "the metric '" + metric.name + "'";
      const TensorType sum = output(metric.sum, role);
      const TensorType count =
          metric.count.empty() ? TensorType{DType::kF32, {}} : output(metric.count, role);
      if (sum.dtype == DType::kF32 && sum.shape.size() <= 1 && count == sum) continue;
      throw UserError(
          role + " of " + network_.name + " reads " + to_text(sum) + " and " + to_text(count),
          "it is a sum divided by a count: two outputs f32[], or two of one f32[n]",
          "reduce what the outputs '" + metric.sum + "' and '" + metric.count +
              "' are to such values",
          ExitCode::kBadData);
    }
  }

 private:
  TensorType output(const std::string& name, const std::string& role) const {
    if (const auto value = find_output(graph_, name)) return graph_.type(*value);
    throw UserError(
        network_.name + " has no output '" + name + "' for " + std::string(to_text(purpose_)),
        role + " reads it; the outputs are " + output_names(graph_),
        "call Forward::output with this name, or name another output in the Network",
        ExitCode::kBadData);
  }

  void check_scalar(const std::string& name, const std::string& role) const {
    const TensorType type = output(name, role);
    if (type == TensorType{DType::kF32, {}}) return;
    throw UserError(role + " of " + network_.name + " is " + to_text(type),
                    "it is one number, f32[]",
                    "reduce '" + name + "' over all its dims, for instance by Builder::reduce_sum",
                    ExitCode::kBadData);
  }

  const Network& network_;
  ForwardPurpose purpose_;
  const Graph& graph_;
};

}  // namespace

Graph forward_graph(const Network& network, ForwardPurpose purpose, int64_t rows, uint64_t seed,
                    const Precision& precision) {
  Graph graph(network.operators);
  Builder builder(graph, seed);
  Forward forward(network, purpose, rows, builder);
  network.forward(forward);
  graph = with_adapters(std::move(graph), network.lora);
  const ForwardCheck result(network, purpose, graph);
  if (forward.has_loss()) {
    result.check_loss();
    result.check_inputs(rows);
    result.check_targets();
  }
  if (purpose == ForwardPurpose::kEvaluation) result.check_metrics();
  return with_precision(std::move(graph), precision.dtype);
}

Graph training_graph(const Network& network, const OptimizerConfig& optimizer, int64_t rows,
                     uint64_t seed, const Precision& precision) {
  Graph graph = forward_graph(network, ForwardPurpose::kTraining, rows, seed, precision);
  Builder builder(graph, seed);
  add_training(builder, graph.output(network.loss), with_measured_norm(optimizer), network.groups,
               network.trained,
               precision.scales_loss() ? std::optional(precision.scale) : std::nullopt);
  if (precision.dtype == DType::kF32) return graph;
  return with_gradients_in(graph, precision.gradients).graph;
}

void check_variables(const Network& network, const Graph& training, const Graph& forward) {
  for (const Variable& variable : forward.variables()) {
    const Value& value = forward.value(variable.value);
    const auto trained = training.find_value(value.name);
    if (trained && training.variable_of(*trained) && training.type(*trained) == value.type)
      continue;
    throw UserError(network.name + " evaluates or predicts with the variable '" + value.name +
                        "' " + to_text(value.type),
                    "its training graph has no such variable, so nothing would set it",
                    "write the same variables in Network::forward for every purpose",
                    ExitCode::kBadData);
  }
}

std::vector<std::string> data_inputs(const Graph& graph) {
  std::vector<std::string> names;
  for (ValueId input : graph.inputs())
    if (const std::string& name = graph.value(input).name;
        name != kStepInput && name != kLearningRateInput)
      names.push_back(name);
  return names;
}

ValueId samples_input(const Graph& graph) {
  const std::vector<std::string> names = data_inputs(graph);
  ensure(!names.empty(), "a network has an input of data");
  return *graph.find_value(names.front());
}

int64_t units_per_batch(const Network& network, const Graph& training) {
  if (network.targets.empty()) return training.type(samples_input(training)).shape[0];
  return element_count(training.type(*training.find_value(network.targets)).shape);
}

std::string unit_of(const Network& network, const Graph& training) {
  if (network.targets.empty()) return "sample";
  if (training.value(samples_input(training)).name == "tokens") return "token";
  const int dims = training.type(*training.find_value(network.targets)).shape.size();
  return dims == 1 ? "image" : "pixel";
}

double model_flops(const Graph& training) {
  double sum = 0;
  for (const Op& op : training.ops())
    if (op.role != Role::kOptimizer)
      sum += static_cast<double>(find_operator(op.kind).work(view(training, op)).flops.value());
  return sum;
}

}  // namespace tessera
