// The contiguous runs of elements that two dense row-major boxes of one tensor share.
#pragma once

#include <cstdint>

#include "base/tensor/split.h"

namespace tessera {

/// The offsets of one run of bytes in two dense boxes.
struct Run {
  int64_t from = 0;
  int64_t to = 0;
  int64_t bytes = 0;
};

/// Iterates over the runs of `common` in ascending order of both offsets. Each run is as long as
/// possible.
///
///   requires  `common` is a part of both boxes
///   memory    a few words, whatever the number of runs
///   example   the columns [2:4] of a 3x4 matrix of floats, out of [0:3, 0:4] into [0:3, 2:4]: (8,
///             0, 8), (24, 8, 8), (40, 16, 8)
class BoxRuns {
 public:
  BoxRuns(const Box& from, const Box& to, const Box& common, int64_t element_bytes);
  bool done() const { return done_; }
  const Run& run() const { return run_; }
  void next();

 private:
  /// Of the dims outside of a run; strides are in bytes.
  Dims extents_, from_strides_, to_strides_, index_;
  Run run_;
  bool done_ = false;
};

}  // namespace tessera
