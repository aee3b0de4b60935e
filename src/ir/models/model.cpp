#include "ir/models/model.h"

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/models/graph_file.h"
#include "ir/models/internal/families.h"

namespace tessera {
namespace {

/// The inputs of the model. All except tokens exist only when they are used.
struct ModelInputs {
  ValueId samples;
  ValueId labels;
  ValueId step;
  std::optional<Decoding> decoding;
};

ModelInputs add_inputs(Builder& builder, const ModelFamily& family, const ModelConfig& config,
                       const BuildOptions& options) {
  const auto& [channels, rows, columns] = config.image;
  const TensorType tokens{DType::kI32, {options.batch, options.decode ? 1 : config.context}};
  const TensorType images{DType::kF32, {options.batch, channels, rows, columns}};
  ModelInputs inputs;
  inputs.samples = is_of_images(family.objective) ? builder.input("images", images)
                                                  : builder.input("tokens", tokens);
  if (options.loss)
    inputs.labels =
        builder.input("labels", family.objective == Objective::kClassOfImage
                                    ? TensorType{DType::kI32, {options.batch}}
                                : family.objective == Objective::kClassOfPixel
                                    ? TensorType{DType::kI32, {options.batch, rows, columns}}
                                    : tokens);
  const bool draws = family.has_layers && family.has_dropout && config.dropout > 0;
  if (options.training && draws) inputs.step = builder.input("step", {DType::kI32, {}});
  if (options.decode)
    inputs.decoding = Decoding{builder.input("place", {DType::kI32, {}}), config.context};
  return inputs;
}

}  // namespace

ModelValues add_model(Builder& builder, const ModelConfig& config, const BuildOptions& options) {
  const ModelFamily family = family_of(config.kind);
  ensure(!options.decode || (family.can_decode && !options.loss && !options.training),
         "decoding is for causal models in use");
  Graph& graph = builder.graph();
  const ModelInputs inputs = add_inputs(builder, family, config, options);
  LayerContext context{builder, inputs.step, options.training, inputs.decoding};
  const ValueId logits = family.logits(context, inputs.samples, with_defaults(config));
  graph.add_output("logits", logits);
  if (!options.loss) return {logits};
  const ValueId labels = family.labels(builder, inputs.labels);
  const CrossEntropy entropy = cross_entropy(context, logits, labels, "loss");
  graph.add_output("loss", entropy.loss);
  graph.add_output("count", entropy.count);
  return {logits, labels};
}

Graph build_model(const ModelConfig& config, const BuildOptions& options) {
  Graph graph;
  Builder builder(graph, options.seed);
  add_model(builder, config, options);
  return graph;
}

Objective objective_of(const ModelConfig& config) {
  if (config.graph) return objective_named(config.graph->network.learns);
  return family_of(config.kind).objective;
}

bool is_of_images(Objective objective) {
  return objective == Objective::kClassOfImage || objective == Objective::kClassOfPixel;
}

std::string_view learned_by(Objective objective) {
  switch (objective) {
    case Objective::kNextToken: return "the next token";
    case Objective::kMaskedToken: return "masked tokens";
    case Objective::kClassOfImage: return "the class of an image";
    case Objective::kClassOfPixel: return "the class of each pixel";
    case Objective::kOther: return "";
  }
  throw InternalError("unknown objective");
}

Objective objective_named(std::string_view learned) {
  for (const Objective objective : {Objective::kNextToken, Objective::kMaskedToken,
                                    Objective::kClassOfImage, Objective::kClassOfPixel})
    if (learned_by(objective) == learned) return objective;
  return Objective::kOther;
}

bool can_decode(const ModelConfig& config) {
  return family_of(config.kind).can_decode;
}

NextToken next_token(const ModelConfig& config, int64_t used) {
  const ModelFamily family = family_of(config.kind);
  ensure(family.next_token != nullptr, "a model that predicts the next token");
  return family.next_token(config.context, used);
}

}  // namespace tessera
