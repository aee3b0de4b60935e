// Batches made ahead of the step, on a thread of their own.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace tessera {

/// The batches of a sampler, in order.
///
///   depth    batches that wait, when no more than kMaxStepsInFlight are taken and not handed back
///   next()   the batch of the next step; rethrows what the loader's thread met
///   memory   batches that were handed back are filled again
class BatchLoader {
 public:
  BatchLoader(DatasetPtr dataset, Sampler sampler, int64_t first_step, int depth = 2);
  ~BatchLoader();

  Batch next();
  void recycle(Batch batch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
