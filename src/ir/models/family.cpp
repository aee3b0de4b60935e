#include "ir/models/family.h"

#include "ir/models/class_counts.h"
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

}  // namespace

Network network_of(const ModelConfig& config) {
  const Objective objective = objective_of(config);
  Network network{.name = "a model of kind " + config.kind,
                  .forward = [config](Forward& forward) { write(forward, config); },
                  .count = "count",
                  .loss_is_entropy = !is_of_images(objective),
                  .metrics = {{"accuracy", "correct", "count", ""}},
                  .targets = "labels",
                  .ignored_target = -1,
                  .learns = std::string(learned_by(objective))};
  if (config.lora.rank > 0) {
    network.lora = config.lora;
    network.trained = adapter_patterns();
  }
  if (objective == Objective::kClassOfPixel)
    network.metrics.push_back({"intersection_over_union", "intersections", "unions", ""});
  if (objective == Objective::kNextToken)
    network.language =
        LanguageModel{.context = config.context,
                      .can_decode = can_decode(config),
                      .next_token = [config](int64_t used) { return next_token(config, used); }};
  return network;
}

}  // namespace tessera
