// The pipeline schedules of the field, compiled to orders of passes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/passes.h"

namespace tessera {

enum class PipelineKind {
  kForwardThenBackward,    // all forwards, then all backwards: all m micro-batches are in flight
  kOneForwardOneBackward,  // stage s of p starts backward after min(m, p - s) forwards and then
                           // alternates: so many micro-batches are in flight
  kEagerOneForwardOneBackward,  // more forwards ahead, so that transfers hide behind passes
  kInterleaved,   // several stages a device, one round after the other: a smaller bubble, more
                  // transfers. Of m = q p + r micro-batches, q groups go round, the first of them
                  // larger where r > 0, for a little more memory
  kZeroBubbleH1,  // backward split: weight gradients fill the end; memory of 1F1B
  kZeroBubbleH2,  // ... and the beginning filled too; twice the memory
  kZeroBubbleV,   // two stages a device, in a V; memory of 1F1B
  kVHalf,         // ... half of it
  kVMin,          // ... a third of it
  kAuto,          // a list scheduler that knows times and memory (schedule/auto_order.h)
};

/// What there is to say of a schedule.
struct PipelineFacts {
  PipelineKind kind;
  std::string_view name;   // as plans have it: "1f1b"
  bool splits_backward;    // input gradients and weight gradients are passes of their own
  std::string_view wants;  // which stages it takes
};
/// All of them, in the order of PipelineKind.
const std::vector<PipelineFacts>& pipeline_schedules();
const PipelineFacts& facts_of(PipelineKind kind);
std::string_view to_text(PipelineKind kind);
/// throws  UserError (78) that lists them
PipelineKind parse_pipeline_kind(std::string_view text);

/// Forward passes of a stage before its first backward, when `to_end` stages (itself counted) lie
/// between it and the end; of the three schedules that take any stages: f-then-b, 1f1b, eager-1f1b.
///   hidden  of eager-1f1b: the periods that a transfer there and one back take, ceil(2 transfer /
///   (F + B + W)) source  PipeDream-flush (arXiv 2006.09503), GPipe (arXiv 1811.06965); eager:
///   DESIGN of credits, exact for equal stages: with one less
///           in flight a stage that alternates would wait for every transfer
int warm_up(PipelineKind kind, int micro_batches, int to_end, int hidden = 1);

/// Why the schedule cannot be made for these stages; "" when it can.
std::string misfit(PipelineKind kind, const PipelineShape& shape);

/// The order of each device. Those of zb-h1, zb-h2, zb-v, v-half and v-min are made as if all
/// passes took as long; the clock tells what they are worth with the times of `shape`.
///
///   requires  misfit(kind, shape) is empty
///   ensures   first_fault is empty but for memory limits, and the clock goes through
///   source    interleaved: Narayanan et al. (arXiv 2104.04473); zb: Qi et al. (arXiv 2401.10241);
///   V: Qi et al. (arXiv 2405.15362)
DeviceOrders named_orders(PipelineKind kind, const PipelineShape& shape);

}  // namespace tessera
