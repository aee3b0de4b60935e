// Discovery: derives the sharding rule of an operator by execution. Its plain reference is executed
// on small tensors, whole and in parts. The operations that restore the whole from the parts are
// the rule. Discovery gives a rule to an operator that has none, and checks the declared rules.
//
// It cannot find factors of an op whose parts must know their position (iota, random numbers, a
// causal mask): a reference has no such parameter.
//
// Source: EasyDist's metashard (alibaba/easydist): annotations, combination functions, chunks and
// halos.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/internal/discovery/discovered.h"
#include "ir/ops/operator.h"
#include "ir/ops/sharding_rule.h"

namespace tessera {

/// Finds factors and linear sets of an op by execution. Large extents are replaced by small ones
/// where the types allow it, and the findings are confirmed on the large ones.
///
///   requires  inputs and attributes of `op` passed infer. The reference accepts all operands that
///             infer accepts, including empty ones and integers outside the range of an index; the
///             references of the built-in operators do
///   ensures   every finding was true for six samples of operands, in two parts, in three, in all
///             single units, and next to an empty part; and again on each large extent, or on the
///             largest affordable one where many dims have it. Seeds are fixed: the same op gives
///             the same discovery
///             elements is not tried
Discovery discover(const Operator& definition, const OpView& op);

/// A rule made from the findings.
struct DiscoveredRule {
  ShardingRule rule;
  std::vector<std::string> left_whole;  // findings that the rule cannot express, with the reason
};
/// The rule of an op. It cannot express every finding. These dims stay whole: halos that the
/// operator would have to cut off, results that each part already has, parts that must count from
/// their beginning, and factors whose kernel call for a part differs from that of an op as small as
/// the part.
DiscoveredRule discover_rule(const Operator& definition, const OpView& op);

}  // namespace tessera
