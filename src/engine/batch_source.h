// The training batches of a run, in the order of its sampler, and the position of the run in them.
#pragma once

#include <memory>
#include <optional>

#include "config/config.h"
#include "data/batch.h"
#include "engine/loader.h"
#include "engine/run_data.h"

namespace tessera {

class BatchSource {
 public:
  /// A batch and the time that the loader took to deliver it.
  struct Taken {
    Batch batch;
    Seconds wait{0};
  };

  /// `config` outlives it.
  ///   parts  data-parallel parts that a batch is divided into
  BatchSource(const RunConfig& config, std::shared_ptr<const RunData> data, int64_t parts);

  Sampler sampler() const;
  int64_t parts() const { return parts_; }
  /// The number of batches taken so far, through all epochs; also the number of the next one.
  int64_t taken() const { return taken_; }
  void set_position(int64_t batch, int64_t parts);

  /// Starts the loader; a second call does nothing.
  void start();
  /// The next batch, which stays until another one is taken.
  const Batch& next();
  /// The time that next() took when it returned `batch` last, else 0.
  Seconds wait_of(const Batch& batch) const;
  /// The next batch, which the caller keeps until it passes it to recycle().
  Taken take();
  void recycle(Batch batch);

 private:
  const RunConfig& config_;
  std::shared_ptr<const RunData> data_;
  int64_t parts_;
  int64_t taken_ = 0;
  std::unique_ptr<BatchLoader> loader_;
  std::optional<Taken> last_;  // the result of next()
};

}  // namespace tessera
