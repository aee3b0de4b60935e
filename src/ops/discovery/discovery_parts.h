// Parts of tensors and ops for discovery. For discovery only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/split.h"
#include "ops/discovery/discovered.h"
#include "ops/operator.h"

namespace tessera::detail {

/// An op that owns what its view shows.
struct OwnedOp {
  const Operator* definition;
  std::string name;
  Attributes attributes;
  std::vector<TensorType> inputs, outputs;

  OpView view() const { return {name, attributes, inputs, outputs, definition}; }
};
/// With the types of its results, inferred if need be.
OwnedOp own(const Operator& definition, const OpView& op);
/// False, and no change, when the operator refuses the op.
bool infer_outputs(OwnedOp& op);

/// Units [range) of every chunk.
///   requires  a part of `extent` units
ReferenceTensor cut(const ReferenceTensor& tensor, const DiscoveredDim& along, int64_t extent,
                    const Range& range);

/// All integers above 1 among the attributes.
std::vector<SizeAttribute> size_attributes(const Attributes& attributes);
int64_t get(const Attributes& attributes, const SizeAttribute& size);
void set(Attributes& attributes, const SizeAttribute& size, int64_t value);

/// The same op with small extents in place of large ones: equal ones stay equal, and every result's
/// type follows suit. An extent stays when infer takes no small value for it, such as one that is
/// fused with another.
///   least  by extent: the smallest value that may replace it; itself, to keep it
OwnedOp shrink(OwnedOp op, const std::map<int64_t, int64_t>& least);

/// Divisors of n, ascending.
std::vector<int64_t> divisors_of(int64_t n);

}  // namespace tessera::detail
