// Discovery: how an operator may be divided, found by running it. Its plain reference is executed
// on small tensors, whole and in parts. What restores the whole from the parts is the rule.
// Discovery gives a rule to an operator that has none, and checks the rules that are written down.
//
// It cannot find factors of an op whose parts must know their position (iota, random numbers, a
// causal mask): a reference has no such parameter.
//
// Source: EasyDist's metashard (alibaba/easydist): annotations, combination functions, chunks and
// halos.
#pragma once

#include <string>
#include <vector>

#include "ops/discovery/discovered.h"
#include "ops/operator.h"
#include "ops/sharding_rule.h"

namespace tessera {

/// Finds factors and linear sets of an op by execution. Large extents are replaced by small ones
/// where the types allow it, and what is found there is confirmed on the large ones.
///
///   requires  inputs and attributes of `op` passed infer. The reference accepts any operands that
///             infer accepts: also empty ones, and integers outside the range of an index, as those
///             of the built-in operators do
///   ensures   what is found held for six samples of operands, in two parts, in three, in all
///             single units, and beside an empty part; and again on each large extent, or on the
///             largest that can be afforded where many dims have it. Fixed seeds: the same op gives
///             the same discovery
///   time      some hundred executions of the small op; an op that stays above 2^20 operations or
///             elements is not tried
Discovery discover(const Operator& definition, const OpView& op);

/// A rule made of what was found.
struct DiscoveredRule {
  ShardingRule rule;
  std::vector<std::string> left_whole;  // what was found, and why the rule cannot express it
};
/// A rule cannot express everything that is found. These dims stay whole: halos that the operator
/// would have to cut off, results that each part has already, parts that must count from where they
/// begin, and factors whose kernel call for a part differs from that of an op as small as the part.
DiscoveredRule discover_rule(const Operator& definition, const OpView& op);

}  // namespace tessera
