#include "engine/evaluator.h"

#include <algorithm>

namespace tessera {

Sampler Evaluator::held_out_sampler() const {
  return Sampler({.samples = data_->held_out->samples(),
                  .batch = programs_.config().train.batch,
                  .parts = 1,
                  .shuffle = Shuffle::kNone,
                  .tail = Tail::kPad,
                  .seed = 0});
}

void Evaluator::fill_batch(const Sampler& sampler, int64_t number) {
  const int64_t rows = sampler.options().batch;
  data_->held_out->fill(sampler, number, {0, rows}, batch_);
  for (int64_t row = 0; row < rows; ++row)
    if (sampler.padded(number, row)) std::ranges::fill(batch_.row<int32_t>(kLabels, row), -1);
  for (const Field& field : programs_.batch_fields()) inputs_[field.name] = &batch_.at(field.name);
}

/// The text bytes of the tokens that labels count, of which the model predicts the last `positions`
/// of each row; 0 when the data is not text.
int64_t Evaluator::counted_bytes(int64_t positions) {
  const RunConfig& config = programs_.config();
  if (config.data.kind != "text" || config.data.mask_block > 0) return 0;
  if (token_bytes_.empty())
    for (int32_t token = 0; token < data_->vocabulary.size(); ++token)
      token_bytes_.push_back(static_cast<int>(data_->vocabulary.decode({token}).size()));
  const auto labels = batch_.at(kLabels).values<int32_t>();
  const int64_t context = config.model.context;
  int64_t bytes = 0;
  for (int64_t i = 0; i < std::ssize(labels); ++i)
    if (labels[i] >= 0 && i % context >= context - positions) bytes += token_bytes_.at(labels[i]);
  return bytes;
}

Evaluation Evaluator::evaluate(int64_t batches) {
  LoadedProgram& program = programs_.get(Purpose::kEvaluate);
  const Sampler sampler = held_out_sampler();
  const int64_t positions = predicted_positions(programs_.training_graph());
  Evaluation evaluation;
  evaluation.held_out_batches = sampler.steps_per_epoch();
  evaluation.batches = std::min(batches, evaluation.held_out_batches);
  double sum = 0, correct = 0;
  IoUAccumulator iou;
  for (int64_t i = 0; i < evaluation.batches; ++i) {
    fill_batch(sampler, i);
    programs_.runtime().run(program, inputs_, results_);
    const double count = results_.at("count").values<float>()[0];
    sum += results_.at("loss").values<float>()[0] * count;
    correct += results_.at("correct").values<float>()[0];
    evaluation.tokens += static_cast<int64_t>(count);
    evaluation.bytes += counted_bytes(positions);
    if (results_.contains("unions"))
      iou.add(results_.at("intersections").values<float>(), results_.at("unions").values<float>());
  }
  const auto tokens = static_cast<double>(std::max<int64_t>(evaluation.tokens, 1));
  evaluation.loss = sum / tokens;
  evaluation.accuracy = correct / tokens;
  evaluation.intersection_over_union = iou.mean();
  return evaluation;
}

}  // namespace tessera
