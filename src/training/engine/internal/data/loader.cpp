#include "training/engine/internal/data/loader.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <vector>

#include "base/threads/worker.h"
#include "runtime/runtime/runtime.h"

namespace tessera {

/// A ring of batches. The worker fills from `filled`, and the caller takes from `taken`. The
/// position of a taken batch is free again when the batch was recycled.
struct BatchLoader::State {
  DatasetPtr dataset;
  Sampler sampler;
  std::vector<Range> rows;
  int64_t first_step;
  std::vector<Batch> ring;
  int64_t filled = 0, taken = 0, returned = 0;
  bool stop = false;
  std::exception_ptr error;  // of the last batch that was filled
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<Worker> worker;

  Batch& place(int64_t number) { return ring[static_cast<size_t>(number) % ring.size()]; }

  void work() {
    for (int64_t number = 0;; ++number) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock,
                     [&] { return stop || number < returned + static_cast<int64_t>(ring.size()); });
        if (stop) return;
      }
      try {
        dataset->fill_rows(sampler, first_step + number, rows, place(number));
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      ++filled;
      changed.notify_all();
      if (error) return;
    }
  }
};

BatchLoader::BatchLoader(DatasetPtr dataset, Sampler sampler, std::vector<Range> rows,
                         int64_t first_step, int depth)
    : state_(new State{std::move(dataset),
                       std::move(sampler),
                       std::move(rows),
                       first_step,
                       {},
                       0,
                       0,
                       0,
                       false,
                       nullptr,
                       {},
                       {},
                       nullptr}) {
  state_->ring.resize(static_cast<size_t>(depth) + kMaxStepsInFlight);
  state_->worker = std::make_unique<Worker>([state = state_.get()] { state->work(); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
  }
  state_->worker.reset();
}

Batch BatchLoader::next() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->filled > state_->taken; });
  if (state_->error && state_->taken + 1 == state_->filled) std::rethrow_exception(state_->error);
  return std::move(state_->place(state_->taken++));
}

void BatchLoader::recycle(Batch batch) {
  const std::lock_guard lock(state_->mutex);
  state_->place(state_->returned++) = std::move(batch);
  state_->changed.notify_all();
}

}  // namespace tessera
