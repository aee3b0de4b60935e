// The sharding of one op, derived from its sharding rule and the placements of its operands. The
// derivation is independent of sharding/propagation/op_sharding.h and of partition, whose results
// it checks.
#pragma once

#include <vector>

#include "sharding/propagation/op_sharding.h"

namespace tessera {

/// The division of the op's factors that its operands have.
///
///   inputs    of the op, all on one mesh, with the partial axes that were derived
///   outputs   as declared; only their dims are read, for factors that no input has
///   declared_partial  of the last output; read where the op makes zeros
///   ensures   operands that have a factor divide it alike; whole dims and factors are not divided;
///             an axis has one use; partial values are sums, and they enter through one linear set
///             as all of its operands and no other
///   throws    InternalError that names the op and the operand
OpSharding derive_sharding(const OpView& op, const ShardingRule& rule,
                           const std::vector<const DistAttr*>& inputs,
                           const std::vector<DistAttr>& outputs,
                           const std::vector<PartialAxis>& declared_partial);

/// The axes on which output `index` is partial, ascending.
///   throws  InternalError when the output would be partial with two reductions at once
std::vector<PartialAxis> derive_partial(const OpView& op, const ShardingRule& rule,
                                        const OpSharding& sharding, int index);

/// The indices of a dim that belong to the part of its factor at `coordinate`, one range for each
/// chunk. Windows are evaluated index by index, where a Split evaluates only their ends.
///   extent  of the factor
std::vector<Range> derive_indices(const DimFactor& dim, int64_t extent, const OpSharding& sharding,
                                  const Coordinate& coordinate);

}  // namespace tessera
