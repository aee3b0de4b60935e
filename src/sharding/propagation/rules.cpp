#include "sharding/propagation/rules.h"

#include "base/hash.h"
#include "ir/ops/operator_rule.h"

namespace tessera {
namespace {

using CatalogueRule = ShardingRule (*)(std::string_view kind, const OpView&);

bool is_catalogue(const RuleLookup& rules) {
  const CatalogueRule* function = rules.target<CatalogueRule>();
  return function && *function == catalogue_rule;
}

std::array<const void*, 3> functions_of(const Operator& definition) {
  return {reinterpret_cast<const void*>(definition.infer),
          reinterpret_cast<const void*>(definition.rule),
          reinterpret_cast<const void*>(definition.reference)};
}

void add(Hasher& hasher, const Attribute& attribute) {
  std::visit(
      [&]<class Kind>(const Kind& value) {
        if constexpr (std::is_same_v<Kind, std::vector<int64_t>>)
          hasher.add_each(value);
        else
          hasher.add(value);
      },
      attribute);
}

size_t hash_of(std::string_view kind, const OpView& op) {
  Hasher hasher;
  hasher.add(kind);
  for (const TensorType& type : op.inputs) {
    hasher.add(type.dtype);
    hasher.add_each(type.shape);
  }
  for (const auto& [name, attribute] : op.attributes) {
    hasher.add(name);
    add(hasher, attribute);
  }
  return hasher.value();
}

}  // namespace

ShardingRule catalogue_rule(std::string_view kind, const OpView& op) {
  return rule_of(op.definition ? *op.definition : find_operator(kind), op);
}

RuleCache::RuleCache(RuleLookup rules)
    : rules_(std::move(rules)), from_catalogue_(is_catalogue(rules_)) {}

RulePtr RuleCache::find(std::string_view kind, const OpView& op) const {
  const auto ask = [&] { return std::make_shared<const ShardingRule>(rules_(kind, op)); };
  // The rule of a While or an If depends on its regions.
  if (!op.definition || !op.regions.empty() || (op.definition->rule && !from_catalogue_))
    return ask();
  const size_t hash = hash_of(kind, op);
  const auto functions = functions_of(*op.definition);
  const auto [begin, end] = known_->equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    const Key& key = at->second.key;
    if (key.kind == kind && key.functions == functions && key.inputs == op.inputs &&
        key.attributes == op.attributes)
      return at->second.rule;
  }
  Key key{std::string(kind), functions, op.inputs, op.attributes};
  return known_->emplace(hash, Entry{std::move(key), ask()})->second.rule;
}

}  // namespace tessera
