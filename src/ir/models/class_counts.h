// What evaluations count of a model of classes: correct predictions, and overlaps of classes.
#pragma once

#include "ir/ops/builder.h"

namespace tessera {

struct CorrectCount {
  ValueId likeliest;  // i32[...]: the most probable class
  ValueId count;      // f32[]
};
/// How many of the labels i32[...] are the most probable class of logits f32[..., classes]. Among
/// equally probable classes the first one is taken, so that a model that knows nothing is right
/// once in a vocabulary. A label below 0 is never right. The ops are called `correct...`.
///   exact  up to 2^24 labels
CorrectCount correct_count(Builder& builder, ValueId logits, ValueId labels);

/// f32[classes] each: the counted labels that are of the class both by the label and by the most
/// probable class, and those that are by either.
struct OverlapCounts {
  ValueId intersections;
  ValueId unions;
};
/// The counts of `likeliest` and labels i32[...]; a label below 0 is not counted. The ops are
/// called `overlap...`.
///   exact  up to 2^24 labels
OverlapCounts overlap_counts(Builder& builder, ValueId likeliest, ValueId labels, int64_t classes);

}  // namespace tessera
