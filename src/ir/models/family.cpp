#include "ir/models/family.h"

#include <utility>

#include "ir/models/class_counts.h"
#include "ir/models/graph_file.h"
#include "ir/models/lora.h"
#include "ir/models/model.h"

namespace tessera {
namespace {

void add_counts(Forward& forward, const ModelConfig& config, const ModelValues& model) {
  Builder& builder = forward.builder();
  const CorrectCount correct = correct_count(builder, model.logits, *model.labels);
  forward.output("correct", correct.count);
  if (objective_of(config) != Objective::kClassOfPixel) return;
  const Shape& shape = builder.shape(model.logits);
  const OverlapCounts overlap =
      overlap_counts(builder, correct.likeliest, *model.labels, shape[shape.size() - 1]);
  forward.output("intersections", overlap.intersections);
  forward.output("unions", overlap.unions);
}

void write(Forward& forward, const ModelConfig& config) {
  const ModelValues model = add_model(forward.builder(), config,
                                      {.batch = forward.rows(),
                                       .training = forward.is_training(),
                                       .loss = forward.has_loss(),
                                       .decode = forward.purpose() == ForwardPurpose::kDecoding});
  if (forward.purpose() != ForwardPurpose::kEvaluation) return;
  add_counts(forward, config, model);
  forward.builder().graph().remove_output("logits");
}

Network with_lora(Network network, const Lora& lora) {
  if (lora.rank == 0) return network;
  network.lora = lora;
  network.trained = adapter_patterns();
  return network;
}

}  // namespace

Network network_of(const ModelConfig& config) {
  if (config.graph) return with_lora(config.graph->network, config.lora);
  const Objective objective = objective_of(config);
  Network network{.name = "a model of kind " + config.kind,
                  .forward = [config](Forward& forward) { write(forward, config); },
                  .count = "count",
                  .loss_is_entropy = !is_of_images(objective),
                  .metrics = {{"accuracy", "correct", "count", ""}},
                  .targets = "labels",
                  .ignored_target = -1,
                  .learns = std::string(learned_by(objective))};
  if (objective == Objective::kClassOfPixel)
    network.metrics.push_back({"intersection_over_union", "intersections", "unions", ""});
  if (objective == Objective::kNextToken)
    network.language =
        LanguageModel{.context = config.context,
                      .can_decode = can_decode(config),
                      .next_token = [config](int64_t used) { return next_token(config, used); }};
  return with_lora(std::move(network), config.lora);
}

std::string graph_file_text(const ModelConfig& config) {
  GraphSizes sizes = config.graph ? config.graph->sizes : GraphSizes{};
  const Network network = network_of(config);
  if (!config.graph && is_of_images(objective_of(config)))
    sizes = {.classes = config.classes, .image = config.image};
  else if (!config.graph)
    sizes = {.context = config.context, .vocabulary = config.vocabulary};
  return graph_file_text(network, sizes);
}

}  // namespace tessera
