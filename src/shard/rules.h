// Where the sharding rules of ops come from.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "ops/operator.h"

namespace tessera {

/// The definitions of the operators, or what a test gives instead.
using RuleLookup = std::function<ShardingRule(std::string_view kind, const OpView&)>;
ShardingRule catalogue_rule(std::string_view kind, const OpView& op);

/// Remembers the rules of operators that bring none: each is discovered once for its types and
/// attributes. Is itself a RuleLookup, so who compiles one graph many times may keep one; copies
/// share what they know.
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
