// Prepares batches before the step needs them, on a thread of its own.
#pragma once

#include <memory>
#include <vector>

#include "training/data/dataset.h"

namespace tessera {

/// The batches of a sampler, in order, with some of their rows; the other rows have any content.
///
///   depth    the number of batches that wait, when no more than kMaxStepsInFlight are taken and
///            not recycled
///   next()   the batch of the next step; rethrows an exception of the loader's thread
///   memory   recycled batches are filled again
class BatchLoader {
 public:
  BatchLoader(DatasetPtr dataset, Sampler sampler, std::vector<Range> rows, int64_t first_step,
              int depth = 2);
  ~BatchLoader();

  Batch next();
  void recycle(Batch batch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
