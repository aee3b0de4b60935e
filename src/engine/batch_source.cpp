#include "engine/batch_source.h"

#include "base/stopwatch.h"

namespace tessera {

BatchSource::BatchSource(const RunConfig& config, std::shared_ptr<const RunData> data,
                         int64_t parts)
    : config_(config), data_(std::move(data)), parts_(parts) {}

Sampler BatchSource::sampler() const {
  return Sampler({.samples = data_->train->samples(),
                  .batch = config_.train.batch,
                  .parts = parts_,
                  .shuffle = config_.data.shuffle,
                  .tail = config_.data.tail,
                  .seed = config_.train.seed});
}

void BatchSource::set_position(int64_t batch, int64_t parts) {
  loader_.reset();
  last_.reset();
  taken_ = batch;
  parts_ = parts;
}

void BatchSource::start() {
  if (!loader_) loader_ = std::make_unique<BatchLoader>(data_->train, sampler(), taken_);
}

const Batch& BatchSource::next() {
  Taken taken = take();
  return last_.emplace(std::move(taken)).batch;
}

Seconds BatchSource::wait_of(const Batch& batch) const {
  return last_ && &batch == &last_->batch ? last_->wait : Seconds(0);
}

BatchSource::Taken BatchSource::take() {
  const Stopwatch stopwatch;
  start();
  if (last_) recycle(std::move(last_->batch));
  last_.reset();
  Batch batch = loader_->next();
  ++taken_;
  return {std::move(batch), stopwatch.elapsed()};
}

void BatchSource::recycle(Batch batch) {
  loader_->recycle(std::move(batch));
}

}  // namespace tessera
