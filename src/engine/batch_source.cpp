#include "engine/batch_source.h"

#include "base/stopwatch.h"

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
