// Parts of tensors and ops for discovery. For discovery only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/tensor/split.h"
#include "ir/ops/internal/discovery/discovered.h"
#include "ir/ops/operator.h"

namespace tessera::detail {

/// An op that owns the data of its view.
struct OwnedOp {
  const Operator* definition;
  std::string name;
  Attributes attributes;
  std::vector<TensorType> inputs, outputs;

  OpView view() const { return {name, attributes, inputs, outputs, definition}; }
};
/// The op with the types of its results, which are inferred if necessary.
OwnedOp own(const Operator& definition, const OpView& op);
/// Returns false, without a change, when the operator refuses the op.
bool infer_outputs(OwnedOp& op);

/// The units `range` of every chunk.
///   requires  a part of `extent` units
ReferenceTensor cut(const ReferenceTensor& tensor, const DiscoveredDim& along, int64_t extent,
                    const Range& range);

/// All integers greater than 1 among the attributes.
std::vector<SizeAttribute> size_attributes(const Attributes& attributes);
int64_t get(const Attributes& attributes, const SizeAttribute& size);
void set(Attributes& attributes, const SizeAttribute& size, int64_t value);

/// The same op with small extents in place of large ones. Equal extents stay equal, and the type of
/// every result follows. An extent stays when infer accepts no small value for it, such as one that
/// is fused with another.
///   least  by extent: the smallest value that may replace it; the extent itself, to keep it
OwnedOp shrink(OwnedOp op, const std::map<int64_t, int64_t>& smallest);

/// Divisors of n, ascending.
std::vector<int64_t> divisors_of(int64_t n);

}  // namespace tessera::detail
