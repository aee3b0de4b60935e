// The source of the sharding rules of ops.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "ops/operator.h"

namespace tessera {

/// Looks up the rule in the definition of the operator, or takes it from a test.
using RuleLookup = std::function<ShardingRule(std::string_view kind, const OpView&)>;
ShardingRule catalogue_rule(std::string_view kind, const OpView& op);

/// Caches the rules of operators that declare none: each is discovered once for its types and
/// attributes. It is itself a RuleLookup, so a caller that compiles one graph many times may keep
/// one. Copies share their contents.
///   threads  one at a time
class RuleCache {
 public:
  explicit RuleCache(RuleLookup rules)
      : rules_(std::move(rules)), known_(std::make_shared<std::map<std::string, ShardingRule>>()) {}

  ShardingRule operator()(std::string_view kind, const OpView& op) const;

 private:
  RuleLookup rules_;
  std::shared_ptr<std::map<std::string, ShardingRule>> known_;
};

}  // namespace tessera
