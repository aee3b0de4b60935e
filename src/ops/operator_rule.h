// The sharding rule of an op: its operator's, or one found by execution.
#pragma once

#include "ops/operator.h"
#include "ops/sharding_rule.h"

namespace tessera {

/// How an op of `definition` may be divided. An operator without a rule is executed to find one
/// (ops/discovery/discovery.h), which takes milliseconds.
ShardingRule rule_of(const Operator& definition, const OpView& op);

}  // namespace tessera
