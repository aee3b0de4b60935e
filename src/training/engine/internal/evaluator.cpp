#include "training/engine/internal/evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/text/count_text.h"

namespace tessera {

namespace {

constexpr int64_t kElsewhere = -1;  // a row that other processes read

/// The sum over all rows, each as the first process that reads it has it.
int64_t sum_over_processes(Runtime& runtime, const std::vector<int64_t>& mine) {
  std::vector<int64_t> first(mine.size(), kElsewhere);
  runtime.all_gather(std::as_bytes(std::span(mine)), [&](std::span<const std::byte> theirs) {
    ensure(theirs.size() == first.size() * sizeof(int64_t), "all processes evaluate one batch");
    std::vector<int64_t> values(first.size());
    std::memcpy(values.data(), theirs.data(), theirs.size());
    for (size_t row = 0; row < first.size(); ++row)
      if (first[row] == kElsewhere) first[row] = values[row];
  });
  int64_t sum = 0;
  for (const int64_t value : first)
    if (value != kElsewhere) sum += value;
  return sum;
}

/// The number of rows of a batch that do not only fill it up.
int64_t rows_of_data(const Sampler& sampler, int64_t number) {
  int64_t rows = 0;
  for (int64_t row = 0; row < sampler.options().batch; ++row)
    if (!sampler.padded(number, row)) ++rows;
  return rows;
}

}  // namespace

Sampler Evaluator::held_out_sampler() const {
  if (!data_->held_out)
    throw UserError("there is nothing to evaluate on", "the data has no held-out samples",
                    "set RunData::held_out, for instance by data_of()", ExitCode::kBadData);
  const int64_t samples = data_->held_out->samples(), batch = programs_.settings().train.batch;
  const bool pads = programs_.network().ignored_target.has_value();
  if (samples > 0 && samples < batch && !pads)
    refuse_data("the held-out data has " + counted(samples, "sample") +
                    ", which do not fill a batch of " + counted(batch, "row"),
                "an evaluation leaves out held-out samples that fill no batch, and none would be "
                "left",
                "hold out more data (data.held_out, or RunData::held_out), or make the batch "
                "smaller");
  return Sampler({.samples = samples,
                  .batch = batch,
                  .parts = 1,
                  .shuffle = Shuffle::kNone,
                  .tail = pads ? Tail::kPad : Tail::kDrop,
                  .seed = 0});
}

void Evaluator::fill_batch(const Sampler& sampler, int64_t number, std::span<const Range> rows) {
  const Network& network = programs_.network();
  data_->held_out->fill_rows(sampler, number, rows, batch_);
  for (const Range& range : rows)
    for (int64_t row = range.begin; row < range.end; ++row)
      if (sampler.padded(number, row))
        std::ranges::fill(batch_.row<int32_t>(network.targets, row), *network.ignored_target);
  for (const Field& field : programs_.batch_fields()) inputs_[field.name] = &batch_.at(field.name);
}

/// The text bytes of the tokens that labels count, of which a language model predicts the last
/// positions of each row; none when the data is not text.
void Evaluator::count_bytes(std::span<const Range> rows, std::vector<int64_t>& bytes_of_rows) {
  const Network& network = programs_.network();
  if (!network.language || !data_->is_text) return;
  if (token_bytes_.empty())
    for (int32_t token = 0; token < data_->vocabulary.size(); ++token)
      token_bytes_.push_back(static_cast<int>(data_->vocabulary.decode({token}).size()));
  const int64_t predicted = predicted_positions(*network.language);
  for (const Range& range : rows)
    for (int64_t row = range.begin; row < range.end; ++row)
      for (const int32_t label : batch_.row<int32_t>(network.targets, row).last(predicted))
        if (label >= 0) bytes_of_rows[row] += token_bytes_.at(label);
}

void Evaluator::prepare() {
  programs_.get(Purpose::kEvaluate);
  held_out_sampler();
}

Evaluation Evaluator::evaluate(int64_t batches, const OnEvaluatedBatch& on_batch) {
  const Network& network = programs_.network();
  LoadedProgram& program = programs_.get(Purpose::kEvaluate);
  const Sampler sampler = held_out_sampler();
  const int64_t rows = sampler.options().batch;
  std::vector<MetricSums> metrics(network.metrics.begin(), network.metrics.end());
  Evaluation evaluation;
  evaluation.held_out_batches = sampler.steps_per_epoch();
  evaluation.batches =
      batches > 0 ? std::min(batches, evaluation.held_out_batches) : evaluation.held_out_batches;
  const std::vector<Range> rows_here = programs_.rows_read_here(Purpose::kEvaluate);
  std::vector<int64_t> bytes_of_rows(static_cast<size_t>(rows), kElsewhere);
  for (const Range& range : rows_here)
    std::fill(bytes_of_rows.begin() + range.begin, bytes_of_rows.begin() + range.end, 0);
  double sum = 0, counted = 0;
  for (int64_t i = 0; i < evaluation.batches; ++i) {
    fill_batch(sampler, i, rows_here);
    programs_.runtime().run(program, inputs_, results_);
    const double count = network.count.empty() ? static_cast<double>(rows)
                                               : results_.at(network.count).values<float>()[0];
    sum += results_.at(network.loss).values<float>()[0] * count;
    counted += count;
    count_bytes(rows_here, bytes_of_rows);
    for (MetricSums& metric : metrics) metric.add(results_, rows_of_data(sampler, i));
    if (on_batch) on_batch(i + 1, evaluation.batches);
  }
  evaluation.bytes = sum_over_processes(programs_.runtime(), bytes_of_rows);
  evaluation.tokens = std::llround(counted);
  evaluation.loss = counted > 0 ? sum / counted : 0;
  for (const MetricSums& metric : metrics) evaluation.metrics.push_back(metric.value());
  return evaluation;
}

}  // namespace tessera
