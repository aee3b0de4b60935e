#include "training/engine/checkpoints/checkpoint_content.h"

#include <fmt/format.h>

namespace tessera {

std::map<std::string, TensorType> variables_of(const Graph& graph) {
  std::map<std::string, TensorType> types;
  for (const Variable& variable : graph.variables())
    types.emplace(graph.value(variable.value).name, graph.type(variable.value));
  return types;
}

Document::Table order_of_data(const Engine& engine) {
  const Sampler sampler = engine.batches().sampler();
  const SamplerOptions& options = sampler.options();
  return {{"samples", options.samples},
          {"batch", options.batch},
          {"shuffle", std::string(to_text(options.shuffle))},
          {"tail", std::string(to_text(options.tail))},
          {"seed", static_cast<int64_t>(options.seed)},
          {"text", fmt::format("{:016x}", engine.batches().data().train->fingerprint())}};
}

namespace {

Document state_of(const Engine& engine) {
  const DataPosition position = engine.position();
  const int64_t epoch = engine.batches().steps_per_epoch();
  Document data;
  data["epoch"] = position.batch / epoch;
  data["step_of_epoch"] = position.batch % epoch;
  data["parts"] =
      position.part_weights.empty()
          ? Document(position.parts)
          : Document(Document::List(position.part_weights.begin(), position.part_weights.end()));
  data["order"] = order_of_data(engine);
  const std::vector<std::string>& symbols = engine.batches().data().vocabulary.symbols();
  Document state;
  state["step"] = position.step;
  state["data"] = std::move(data);
  if (const std::optional<double> rate = engine.own_learning_rate()) state["learning_rate"] = *rate;
  state["plan"] = engine.plan().name;
  state["settings"] = resolved_settings(engine.config());
  state["vocabulary"] =
      symbols.empty() ? Document() : Document(Document::List(symbols.begin(), symbols.end()));
  return state;
}

}  // namespace

CheckpointDocuments documents_of(const Engine& engine) {
  return {state_of(engine),
          to_document(engine.plan(), engine.graph(), rewritten_fingerprint(engine.compiled()))};
}

std::vector<StoredPart> owned_parts(const std::map<std::string, TensorType>& variables,
                                    std::span<const VariablePart> held) {
  std::vector<StoredPart> owned;
  for (const VariablePart& part : held)
    if (part.first_holder && variables.contains(part.name))
      owned.push_back({part.name, part.box, part.whole.dtype, part.whole, part.data});
  return owned;
}

}  // namespace tessera
