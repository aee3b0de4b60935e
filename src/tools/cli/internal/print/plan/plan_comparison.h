// The numbers of two plans side by side: `tessera explain CONFIG --plan A --compare B`.
#pragma once

#include <string>

#include "base/files/document.h"
#include "tools/cli/internal/print/plan/plan_numbers.h"
#include "tools/cli/internal/print/repeated_rows.h"

namespace tessera {

/// A tensor or an exchange that one plan has and the other has not, or that has other bytes,
/// another placement, or another kind of exchange.
struct PlanDifference {
  std::string kind;  // "parameter", "arena"; of an exchange its role
  std::string name;
  std::string text;        // of the plan: the placement, or the exchange; "" in the arena; "none"
  std::string other_text;  // of the other plan
  Bytes bytes{0};          // on a rank of its mesh, or received by it
  Bytes other_bytes{0};

  /// Above 0 when the other plan has more.
  Bytes difference() const { return other_bytes - bytes; }
};

/// Repeated layers are one line. Both lists begin with the greatest differences.
struct PlanComparison {
  std::vector<PlanDifference> tensors;
  std::vector<PlanDifference> exchanges;
};
PlanComparison comparison_of(const PlanNumbers& plan, const PlanNumbers& other,
                             const RepeatedRows& repeated);

///   lines  of tensors and of exchanges, at most; 0: all
std::string comparison_text(const PlanNumbers& plan, const PlanNumbers& other,
                            const PlanComparison& comparison, size_t lines);
/// {with, is_same, memory: {parameter_bytes: {plan, other, difference}, ...},
///  sent: [{axes, exchanges, tensors, bytes: {plan, other, difference}}],
///  bubble: {plan, other}, tensors, exchanges: [{kind, name, plan, other, bytes}]}
/// The bubbles are those of bubble_document.
Document comparison_document(const PlanNumbers& plan, const PlanNumbers& other,
                             const PlanComparison& comparison);

}  // namespace tessera
