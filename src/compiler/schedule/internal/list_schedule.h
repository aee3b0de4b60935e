// A list scheduler for pipelines of any stages, times and memory.
#pragma once

#include <optional>

#include "compiler/schedule/internal/passes.h"

namespace tessera {

/// The rule by which a device chooses its next pass.
struct ListRule {
  /// The choice between a ready F and a ready B. kInTurn takes the other kind than last time.
  enum class Prefer { kBackward, kForward, kInTurn };
  /// When a waiting device executes a W: when it fits; also when the device lost more time than
  /// the others; or always.
  enum class Fill { kFits, kBalanced, kAlways };

  Prefer prefer = Prefer::kBackward;
  Fill fill = Fill::kBalanced;
  /// Begins no F that would delay a B whose arrival time is known.
  bool awaits_backward = false;
  /// The largest number of forwards ahead of backwards, as a multiple of that of 1F1B; 0: as many
  /// as memory allows.
  double ahead = 0;
};

/// Orders of F, B and W. In simulated time, the device that can begin a pass first begins the one
/// that the rule selects.
///
///   memory   an F begins only when every micro-batch can still be finished within the limits, the
///            oldest first (the banker's algorithm, Dijkstra, EWD 623): so passes never wait for
///            memory in a cycle
///   returns  nullopt when one micro-batch alone does not fit its limits
///   throws   UserError (78) when stages wait for each other in a cycle
///   time     O(passes x devices)
std::optional<DeviceOrders> list_schedule(const PipelineShape& shape, const ListRule& rule);

}  // namespace tessera
