// The sharding rule of an op: declared by its operator, or found by execution.
#pragma once

#include "ir/ops/operator.h"
#include "ir/ops/sharding_rule.h"

namespace tessera {

/// The sharding rule of an op of `definition`. An operator without a rule is executed to find one
/// (ir/ops/discovery/discovery.h), which takes milliseconds.
ShardingRule rule_of(const Operator& definition, const OpView& op);

}  // namespace tessera
