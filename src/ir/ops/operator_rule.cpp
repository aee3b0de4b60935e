#include "ir/ops/operator_rule.h"

#include "ir/ops/discovery/discovery.h"

namespace tessera {

ShardingRule rule_of(const Operator& definition, const OpView& op) {
  return definition.rule ? definition.rule(op) : discover_rule(definition, op).rule;
}

}  // namespace tessera
