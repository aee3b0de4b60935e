// The summary that `tessera explain` begins with: the numbers of a plan in less than 40 lines.
#pragma once

#include <string>

#include "base/files/document.h"
#include "tools/cli/internal/print/plan/plan_numbers.h"
#include "tools/cli/internal/print/repeated_rows.h"

namespace tessera {

/// Repeated layers are one line, with their number: "blocks.{0..11}.attn.q.weight  x12". Of several
/// meshes it has those whose ranks need the most and the least memory, of many axes those over
/// which the most bytes are sent, and the first note of waste.
///   ensures  fewer than 40 lines
std::string summary_text(const PlanNumbers& numbers, const RepeatedRows& repeated);
/// {memory: [{mesh, parameter_bytes, optimizer_bytes, activation_bytes, bytes}],
///  sent: [{axes, exchanges, tensors, bytes}], bubble, largest: {parameters, activations,
///  exchanges: [{name, count, bytes}]}, waste: [text]}; bubble is null without a pipeline.
Document summary_document(const PlanNumbers& numbers, const RepeatedRows& repeated);

/// {mean, devices: [{stages, busy, bubble}], step, lower_bound}: bubbles as fractions of the step,
/// times in those of a micro-batch on the busiest device; null without a pipeline.
Document bubble_document(const PlanNumbers& numbers);

}  // namespace tessera
