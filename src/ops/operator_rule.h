// The sharding rule of an op: declared by its operator, or found by execution.
#pragma once

#include "ops/operator.h"
#include "ops/sharding_rule.h"

namespace tessera {

/// The sharding rule of an op of `definition`. An operator without a rule is executed to find one
/// (ops/discovery/discovery.h), which takes milliseconds.
ShardingRule rule_of(const Operator& definition, const OpView& op);

}  // namespace tessera
