// A list scheduler for pipelines of any stages, times and memory.
#pragma once

#include <optional>

#include "schedule/passes.h"

namespace tessera {

/// How a device chooses among what it could do next.
struct ListRule {
  enum class Prefer {
    kBackward,
    kForward,
    kInTurn
  };  // of F and B that are there: B, F, or the other kind than last time
  enum class Fill {
    kFits,
    kBalanced,
    kAlways
  };  // a W while it waits: when it fits; or else when the device lost more time than the others;
      // always

  Prefer prefer = Prefer::kBackward;
  Fill fill = Fill::kBalanced;
  bool awaits_backward =
      false;  // does not begin an F that would hold up a B whose arrival is known
  double ahead =
      0;  // forwards ahead of backwards at most, in times of 1F1B's; 0: as many as memory takes
};

/// Orders of F, B and W. Time runs on; the device that can begin something first begins what the
/// rule says.
///
///   memory   an F begins only when every micro-batch can still be finished within the limits, the
///   oldest first (the banker's algorithm,
///            Dijkstra, EWD 623): so passes never wait for memory in a cycle
///   returns  nothing when one micro-batch alone does not fit its limits
///   throws   UserError (78) when stages wait for each other in a cycle
///   time     O(passes x devices)
std::optional<DeviceOrders> list_schedule(const PipelineShape& shape, const ListRule& rule);

}  // namespace tessera
