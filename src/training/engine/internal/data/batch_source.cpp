#include "training/engine/internal/data/batch_source.h"

#include "base/threads/stopwatch.h"
#include "task_graph/tasks/input_rows.h"

namespace tessera {

Sampler BatchSource::sampler() const {
  return Sampler({.samples = data_->train->samples(),
                  .batch = settings_.train.batch,
                  .parts = parts_,
                  .weights = part_weights_,
                  .shuffle = settings_.order.shuffle,
                  .tail = settings_.order.tail,
                  .seed = settings_.train.seed});
}

void BatchSource::set_position(int64_t batch, int64_t parts, std::vector<int64_t> part_weights) {
  loader_.reset();
  last_.reset();
  taken_ = batch;
  parts_ = parts;
  part_weights_ = std::move(part_weights);
}

std::vector<Range> BatchSource::rows() const {
  return rows_.value_or(std::vector<Range>{{0, settings_.train.batch}});
}

void BatchSource::set_rows(std::vector<Range> rows) {
  if (rows == this->rows()) return;
  rows_ = std::move(rows);
  loader_.reset();  // its batches have the former rows
  last_is_of_loader_ = false;
}

void BatchSource::start() {
  if (!loader_) loader_ = std::make_unique<BatchLoader>(data_->train, sampler(), rows(), taken_);
}

const Batch& BatchSource::next() {
  const Stopwatch stopwatch;
  Taken taken = take();
  const std::vector<Range> missing = other_rows(rows(), settings_.train.batch);
  if (!missing.empty()) {
    data_->train->fill_rows(sampler(), taken_ - 1, missing, taken.batch);
    taken.wait = stopwatch.elapsed();
  }
  last_is_of_loader_ = true;
  return last_.emplace(std::move(taken)).batch;
}

Seconds BatchSource::wait_of(const Batch& batch) const {
  return last_ && &batch == &last_->batch ? last_->wait : Seconds(0);
}

BatchSource::Taken BatchSource::take() {
  const Stopwatch stopwatch;
  start();
  if (last_ && last_is_of_loader_) recycle(std::move(last_->batch));
  last_.reset();
  Batch batch = loader_->next();
  ++taken_;
  return {std::move(batch), stopwatch.elapsed()};
}

void BatchSource::recycle(Batch batch) {
  loader_->recycle(std::move(batch));
}

}  // namespace tessera
