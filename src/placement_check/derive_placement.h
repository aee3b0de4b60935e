// What follows for one op from its sharding rule and the places of its operands, for the check of
// placements: written anew from the rule, so that it can judge what shard/op_sharding.h and
// partition made of it.
#pragma once

#include <vector>

#include "shard/op_sharding.h"

namespace tessera {

/// The one way to divide the op's factors under which its operands lie as they do.
///
///   inputs    of the op, all on one mesh; what they are addends over is known
///   outputs   as declared: only their dims are read, for factors that no input has
///   ensures   operands that have a factor divide it alike; whole dims and factors are not divided;
///   an axis has one use; addends
///             are sums and enter through a linear set, all of it and nothing else
///   throws    InternalError that names the op and the operand
OpSharding derive_sharding(const OpView& op, const ShardingRule& rule,
                           const std::vector<const DistAttr*>& inputs,
                           const std::vector<DistAttr>& outputs);

/// The axes over which output `index` holds addends, ascending.
///   throws  InternalError when it would be addends of two reductions at once
std::vector<PartialAxis> derive_partial(const OpView& op, const ShardingRule& rule,
                                        const OpSharding& sharding, int index);

/// The indices of a dim that go with the part of its factor at `coordinate`, a range a chunk;
/// windows are followed index by index, where a Split goes by their ends.
///   extent  of the factor
std::vector<Range> derive_indices(const DimFactor& dim, int64_t extent, const OpSharding& sharding,
                                  const Coordinate& coordinate);

/// "dp, tp", or "no axis".
std::string axes_text(const Mesh& mesh, const std::vector<int>& axes);
/// "sum over dp, max over tp", or "nothing".
std::string partial_text(const Mesh& mesh, const std::vector<PartialAxis>& partial);

}  // namespace tessera
