#include "engine/evaluator.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

Sampler Evaluator::held_out_sampler() const {
  if (!data_->held_out)
    throw UserError("there is nothing to evaluate on", "the data has no held-out samples",
                    "set RunData::held_out, for instance by data_of()", ExitCode::kBadData);
  return Sampler({.samples = data_->held_out->samples(),
                  .batch = programs_.settings().train.batch,
                  .parts = 1,
                  .shuffle = Shuffle::kNone,
                  .tail = programs_.network().ignored_target ? Tail::kPad : Tail::kDrop,
                  .seed = 0});
}

void Evaluator::fill_batch(const Sampler& sampler, int64_t number) {
  const Network& network = programs_.network();
  const int64_t rows = sampler.options().batch;
  data_->held_out->fill(sampler, number, {0, rows}, batch_);
  for (int64_t row = 0; row < rows; ++row)
    if (sampler.padded(number, row))
      std::ranges::fill(batch_.row<int32_t>(network.targets, row), *network.ignored_target);
  for (const Field& field : programs_.batch_fields()) inputs_[field.name] = &batch_.at(field.name);
}

/// The text bytes of the tokens that labels count, of which a language model predicts the last
/// positions of each row; 0 when the data is not text.
int64_t Evaluator::counted_bytes() {
  const Network& network = programs_.network();
  if (!network.language || !data_->is_text) return 0;
  if (token_bytes_.empty())
    for (int32_t token = 0; token < data_->vocabulary.size(); ++token)
      token_bytes_.push_back(static_cast<int>(data_->vocabulary.decode({token}).size()));
  const auto labels = batch_.at(network.targets).values<int32_t>();
  const int64_t context = network.language->context;
  const int64_t positions = predicted_positions(*network.language);
  int64_t bytes = 0;
  for (int64_t i = 0; i < std::ssize(labels); ++i)
    if (labels[i] >= 0 && i % context >= context - positions) bytes += token_bytes_.at(labels[i]);
  return bytes;
}

Evaluation Evaluator::evaluate(int64_t batches) {
  const Network& network = programs_.network();
  LoadedProgram& program = programs_.get(Purpose::kEvaluate);
  const Sampler sampler = held_out_sampler();
  const int64_t rows = sampler.options().batch;
  std::vector<MetricSums> metrics(network.metrics.begin(), network.metrics.end());
  Evaluation evaluation;
  evaluation.held_out_batches = sampler.steps_per_epoch();
  evaluation.batches =
      batches > 0 ? std::min(batches, evaluation.held_out_batches) : evaluation.held_out_batches;
  double sum = 0;
  for (int64_t i = 0; i < evaluation.batches; ++i) {
    fill_batch(sampler, i);
    programs_.runtime().run(program, inputs_, results_);
    const double count = network.count.empty() ? static_cast<double>(rows)
                                               : results_.at(network.count).values<float>()[0];
    sum += results_.at(network.loss).values<float>()[0] * count;
    evaluation.tokens += static_cast<int64_t>(count);
    evaluation.bytes += counted_bytes();
    for (MetricSums& metric : metrics) metric.add(results_, rows);
  }
  evaluation.loss = sum / static_cast<double>(std::max<int64_t>(evaluation.tokens, 1));
  for (const MetricSums& metric : metrics) evaluation.metrics.push_back(metric.value());
  return evaluation;
}

}  // namespace tessera
