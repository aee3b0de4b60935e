// What a compiled plan costs in a step, as numbers: memory of a rank, bytes that are sent, the
// bubble. `tessera explain` prints them as a summary and compares those of two plans.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/print/plan/explanation.h"

namespace tessera {

/// A time that may not be known, as a member of a JSON object.
Document seconds_or_null(const std::optional<Seconds>& time);

/// Bytes of a rank of one mesh: of the rank with the largest parts.
struct MeshMemory {
  std::string mesh;
  Bytes parameters{0};   // trainable variables
  Bytes state{0};        // other variables: optimizer state, running means
  Bytes activations{0};  // the arena: activations, gradients and buffers

  Bytes variables() const { return parameters + state; }
  Bytes all() const { return variables() + activations; }
};

/// The exchanges of a step over the same axes.
struct AxisTraffic {
  std::string axes;  // "tp", "dp,tp"; "" between meshes
  int64_t exchanges = 0;
  int64_t tensors = 0;
  Bytes bytes{0};  // the sum over the tensors of the bytes that a rank receives
};
/// "tp"; "between meshes".
std::string axes_text(const AxisTraffic& traffic);

/// A tensor and the bytes that it has on a rank of a mesh, or that such a rank receives in a step.
struct NamedBytes {
  std::string name;
  std::string detail;  // of a parameter its placement, of an exchange "all-reduce over tp"
  std::string role;    // of an exchange
  std::string mesh;
  int64_t count = 1;  // of its micro-batches, or of the parts in which it is exchanged
  Bytes bytes{0};     // of all of them
};

struct PlanNumbers {
  std::string title;  // "plan 'gpt.dp4' on mesh dp=4, 4 ranks"
  std::vector<MeshMemory> memory;
  Bytes reserve{0};  // of libraries, on each device beside that; 0 where the devices are not known
  std::vector<AxisTraffic> sent;  // the most bytes first
  AxisTraffic all_sent;
  std::optional<PipelineWorth> pipeline;
  /// In the order of the graph, and of the step. Arena registers share memory when they are not
  /// needed at the same time, so the activations add up to more than the arena.
  std::vector<NamedBytes> parameters, activations, exchanges;
  std::vector<ShardingNote> notes;

  /// That of the ranks that need most memory.
  const MeshMemory& largest_memory() const;
};
PlanNumbers numbers_of(const Compiled& compiled, const std::string& title);

}  // namespace tessera
