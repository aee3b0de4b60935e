// The training batches of a run, in the order of its sampler, and the position of the run in them.
#pragma once

#include <memory>
#include <optional>

#include "training/config/config.h"
#include "training/data/batch.h"
#include "training/engine/internal/data/loader.h"
#include "training/engine/run_data.h"

namespace tessera {

class BatchSource {
 public:
  /// A batch and the time that the loader took to deliver it.
  struct Taken {
    Batch batch;
    Seconds wait{0};
  };

  /// `settings` outlives it.
  BatchSource(const TrainingSettings& settings, std::shared_ptr<const RunData> data)
      : settings_(settings), data_(std::move(data)) {}

  const RunData& data() const { return *data_; }
  /// The order of the batches. A run that goes on under another plan takes the same batches.
  Sampler sampler() const;
  /// The number of batches of one pass over the training data.
  int64_t steps_per_epoch() const { return sampler().steps_per_epoch(); }
  /// The data-parallel parts that a batch is divided into.
  int64_t parts() const { return parts_; }
  /// Their weights; empty when they are equal.
  const std::vector<int64_t>& part_weights() const { return part_weights_; }
  /// The number of batches taken so far, through all epochs; also the number of the next one.
  int64_t taken() const { return taken_; }
  void set_position(int64_t batch, int64_t parts, std::vector<int64_t> part_weights);
  /// The rows of a batch that the ranks of this process read: ranges that ascend. At first all.
  std::vector<Range> rows() const;
  /// Batches that are taken from now on have these rows.
  void set_rows(std::vector<Range> rows);

  /// Starts the loader; a second call does nothing.
  void start();
  /// The next batch with all its rows, for a caller who may read any. It stays until another one is
  /// taken.
  const Batch& next();
  /// The time that next() took when it returned `batch` last, else 0.
  Seconds wait_of(const Batch& batch) const;
  /// The next batch with rows(), which the caller keeps until it passes it to recycle().
  Taken take();
  void recycle(Batch batch);

 private:
  const TrainingSettings& settings_;
  std::shared_ptr<const RunData> data_;
  int64_t parts_ = 1;
  std::vector<int64_t> part_weights_;
  std::optional<std::vector<Range>> rows_;  // nullopt: all
  int64_t taken_ = 0;
  std::unique_ptr<BatchLoader> loader_;
  bool last_is_of_loader_ = false;  // or of an earlier one, which takes no batch back
  std::optional<Taken> last_;       // the result of next()
};

}  // namespace tessera
