// What the memory of a rank holds over a predicted step.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/clock/simulate.h"
#include "simulator/step/act_demands.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// What bytes are used for.
enum class MemoryKind : uint8_t {
  kVariables,    // parameters and optimizer state
  kBatch,        // inputs of the step
  kActivations,  // results of the forward that the backward reads
  kGradients,    // results of the backward, of activations and of parameters
  kExchanges,    // received by an exchange or a copy
  kTemporaries,  // other results
  kWorkspace,    // of kernels
};
inline constexpr size_t kMemoryKinds = 7;
/// "variables", "batch", "activations kept for the backward", "gradients", "buffers of exchanges",
/// "temporary results", "workspace of kernels".
std::string_view to_text(MemoryKind kind);

using BytesByKind = std::array<Bytes, kMemoryKinds>;
Bytes sum(const BytesByKind& bytes);

/// The live bytes from `at` to the next moment.
struct MemoryMoment {
  Seconds at{0};  // since the begin of the step
  BytesByKind bytes = {};
};

/// A register that is live at the peak.
struct PeakRegister {
  std::string name;
  MemoryKind kind = MemoryKind::kTemporaries;
  Bytes bytes{0};
};

struct MemoryOverTime {
  Rank rank = 0;                      // of several identical ranks, the simulated one
  std::vector<MemoryMoment> moments;  // ascending
  size_t peak = 0;                    // the first moment with most bytes
  /// That of the moments from the first kernel of the optimizer after the last one of the backward
  /// on; none where the optimizer fills no register.
  std::optional<size_t> optimizer_peak;
  std::string filled;                 // the largest register that is filled from then on
  std::vector<PeakRegister> largest;  // at the peak, without variables; at most 10, largest first

  const MemoryMoment& at_peak() const { return moments.at(peak); }
};

/// The memory of each simulated rank over the last step. Bytes that several live registers share,
/// as the input and the output of a kernel that runs in place, count once, for the one that was
/// filled last; so the sum of what is not in variables is at most the arenas. Inside of an act, the
/// results of its kernels are live from the begin of the kernel on, by the prices of the kernels;
/// those that only this act reads to the end of the last kernel that reads them.
///
///   requires  SimulateOptions::has_path_and_memory
///   time      O(live ranges x their pieces), where pieces are what all registers divide the arena
///             into
std::vector<MemoryOverTime> memory_over_time(const TaskGraph& graph, const Simulation& simulation,
                                             ActDemands& acts);

/// The live ranges of a simulation, inside of acts by their kernels, as memory_over_time has them.
std::vector<LiveRange> ranges_by_kernels(const TaskGraph& graph, const Simulation& simulation,
                                         ActDemands& acts);

}  // namespace tessera
