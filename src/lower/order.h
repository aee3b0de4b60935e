// The order of the instructions of a step: which micro-batch of which stage when.
#pragma once

#include "lower/program.h"
#include "schedule/pipeline.h"

namespace tessera {

/// Sorts the instructions by the schedule of their stages.
///   ensures  each comes after those whose registers it reads, and after those that read a variable before it is written over; with one
///            mesh and one micro-batch nothing changes
void order_instructions(Program& program, int64_t micro_batches, PipelineKind kind);

/// The order of each mesh: "first: F0 F1 B0 B1 O": forward and backward by micro-batch, what is done once without a number.
std::string order_text(const Program& program, const std::vector<std::string>& mesh_names);

}  // namespace tessera
