#include "shard/rules.h"

#include <fmt/format.h>

#include "ops/operator_rule.h"

namespace tessera {
namespace {

/// Identifies an op without its name. Two programs may give one name to different operators, so the
/// functions of the operator are included.
std::string key_of(std::string_view kind, const OpView& op) {
  std::string key = fmt::format("{} {} {}", kind, fmt::ptr(op.definition->infer),
                                fmt::ptr(op.definition->reference));
  for (const TensorType& type : op.inputs) key += " " + to_text(type);
  return key + " " + to_text(op.attributes);
}

}  // namespace

ShardingRule catalogue_rule(std::string_view kind, const OpView& op) {
  return rule_of(op.definition ? *op.definition : find_operator(kind), op);
}

ShardingRule RuleCache::operator()(std::string_view kind, const OpView& op) const {
  if (!op.definition || op.definition->rule) return rules_(kind, op);
  const std::string key = key_of(kind, op);
  const auto known = known_->find(key);
  return known != known_->end() ? known->second
                                : known_->emplace(key, rules_(kind, op)).first->second;
}

}  // namespace tessera
