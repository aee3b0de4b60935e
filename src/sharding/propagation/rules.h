// The source of the sharding rules of ops.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/ops/operator.h"

namespace tessera {

/// Looks up the rule in the definition of the operator, or takes it from a test.
using RuleLookup = std::function<ShardingRule(std::string_view kind, const OpView&)>;
ShardingRule catalogue_rule(std::string_view kind, const OpView& op);

/// A rule that several ops may have.
using RulePtr = std::shared_ptr<const ShardingRule>;

/// Keeps rules by operator, types and attributes: those of the catalogue, and those of operators
/// that declare none, which are discovered once. A rule that an operator declares is taken from a
/// test for each op. It is itself a RuleLookup, so a caller that compiles one graph many times may
/// keep one. Copies share their contents.
///   threads  one at a time
class RuleCache {
 public:
  explicit RuleCache(RuleLookup rules);

  ShardingRule operator()(std::string_view kind, const OpView& op) const { return *find(kind, op); }
  /// Equal ops may share the result.
  RulePtr find(std::string_view kind, const OpView& op) const;

 private:
  /// What a rule depends on.
  struct Key {
    std::string kind;
    std::array<const void*, 3> functions;  // two programs may give one name to different operators
    std::vector<TensorType> inputs;
    Attributes attributes;
  };
  struct Entry {
    Key key;
    RulePtr rule;
  };
  using Table = std::unordered_multimap<size_t, Entry>;  // by a hash of the key

  RuleLookup rules_;
  bool from_catalogue_;
  std::shared_ptr<Table> known_ = std::make_shared<Table>();
};

/// The rule of each op of a graph.
class OpRules {
 public:
  void push_back(RulePtr rule) { rules_.push_back(std::move(rule)); }
  const ShardingRule& operator[](size_t op) const { return *rules_[op]; }

 private:
  std::vector<RulePtr> rules_;
};

}  // namespace tessera
