// What the memory of a rank holds in a runtime with other kernels than ours: only what these write,
// each tensor for as long as it is read.
#pragma once

#include <map>

#include "base/units.h"
#include "simulator/clock/simulate.h"
#include "simulator/step/act_demands.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// By simulated rank: the most bytes of tensors that are live at once in the last step, beside the
/// variables. What kernels do not write takes none, and what it is computed from again lives as
/// long as it would; workspaces are none. Attention with AttentionKernel::kScores keeps five bytes
/// for each score: those of the softmax, a mask, and those after the dropout (Korthikanti et al.,
/// 2205.05198).
///
///   requires  SimulateOptions::has_path_and_memory; a runtime that fuses
std::map<Rank, Bytes> live_peaks(const TaskGraph& graph, const Simulation& simulation,
                                 ActDemands& acts);

}  // namespace tessera
