#include "ir/models/network.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

std::string_view to_text(ForwardPurpose purpose) {
  switch (purpose) {
    case ForwardPurpose::kTraining: return "training";
    case ForwardPurpose::kEvaluation: return "evaluation";
    case ForwardPurpose::kPrediction: return "prediction";
    case ForwardPurpose::kDecoding: return "decoding";
  }
  throw InternalError("unknown purpose of a forward graph");
}

ValueId Forward::graph_input(std::string_view name, const TensorType& type) {
  Graph& graph = builder_.graph();
  const auto found = graph.find_value(name);
  if (!found) return graph.add_input(std::string(name), type);
  if (graph.is_input(*found) && graph.type(*found) == type) return *found;
  throw UserError("the input '" + std::string(name) + "' of " + network_.name + " is " +
                      to_text(type) + " and " + to_text(graph.type(*found)),
                  "another value of the graph has its name", "rename that value, or the input",
                  ExitCode::kBadData);
}

LayerContext Forward::layers() {
  LayerContext context{builder_, {}, is_training()};
  if (is_training()) context.step = graph_input(kStepInput, {DType::kI32, {}});
  if (purpose_ == ForwardPurpose::kDecoding)
    context.decoding =
        Decoding{graph_input("place", {DType::kI32, {}}), network_.language->context};
  return context;
}

ValueId Forward::input(std::string_view name, const TensorType& sample) {
  std::vector<int64_t> extents{rows_};
  extents.insert(extents.end(), sample.shape.begin(), sample.shape.end());
  return graph_input(name, {sample.dtype, Shape(std::span<const int64_t>(extents))});
}

void Forward::output(const std::string& name, ValueId value) {
  builder_.graph().add_output(name, value);
}

void check(const Network& network) {
  const auto refuse = [&](const std::string& what, const std::string& why, const std::string& fix) {
    throw UserError(network.name + " " + what, why, fix, ExitCode::kBadConfig);
  };
  if (!network.forward)
    refuse("has no forward graph", "Network::forward is empty",
           "set it to a function that writes the graph");
  for (const Metric& metric : network.metrics)
    if (std::ranges::count(network.metrics, metric.name, &Metric::name) > 1)
      refuse("has two metrics called '" + metric.name + "'",
             "logs and results find a metric by its name", "give each metric a name of its own");
  if (network.ignored_target && (network.targets.empty() || network.count.empty()))
    refuse("ignores targets of a value but does not say which or how many",
           "rows that fill up a batch are left out through Network::targets and Network::count",
           "set both, or leave ignored_target unset");
}

}  // namespace tessera
