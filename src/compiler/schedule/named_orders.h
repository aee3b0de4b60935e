// The pipeline schedules of the literature, compiled to orders of passes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/schedule/internal/passes.h"

namespace tessera {

enum class PipelineKind {
  /// All forwards, then all backwards: all m micro-batches are in flight.
  kForwardThenBackward,
  /// Stage s of p starts backward after min(m, p - s) forwards and then alternates; that many
  /// micro-batches are in flight.
  kOneForwardOneBackward,
  /// Has more forwards ahead, so that transfers overlap with passes.
  kEagerOneForwardOneBackward,
  /// Several stages per device, one round after the other: a smaller bubble, more transfers. The
  /// m = q p + r micro-batches form q groups, of which the first is larger when r > 0, for a
  /// little more memory.
  kInterleaved,
  kZeroBubbleH1,  // backward split: weight gradients fill the end; memory of 1F1B
  kZeroBubbleH2,  // weight gradients also fill the beginning; twice the memory
  kZeroBubbleV,   // two stages per device, in a V; memory of 1F1B
  kVHalf,         // a V with half of the memory
  kVMin,          // a V with a third of the memory
  kAuto,          // a list scheduler that knows times and memory (compiler/schedule/auto_order.h)
};

/// The properties of a schedule.
struct PipelineFacts {
  PipelineKind kind;
  std::string_view name;   // its name in plans: "1f1b"
  bool splits_backward;    // input gradients and weight gradients are passes of their own
  std::string_view wants;  // the stages that it accepts
};
/// All schedules, in the order of PipelineKind.
const std::vector<PipelineFacts>& pipeline_schedules();
const PipelineFacts& facts_of(PipelineKind kind);
std::string_view to_text(PipelineKind kind);
///   throws  UserError (78) that lists the schedules
PipelineKind parse_pipeline_kind(std::string_view text);

/// The forward passes of a stage before its first backward, when `to_end` stages (including itself)
/// are between it and the end. For the three schedules that accept any stages: f-then-b, 1f1b,
/// eager-1f1b.
///   hidden  for eager-1f1b: the periods that a transfer in each direction takes, ceil(2 transfer /
///           (F + B + W))
///   source  PipeDream-flush (arXiv 2006.09503), GPipe (arXiv 1811.06965); eager: DESIGN of
///           credits, exact for equal stages: with one less in flight, a stage that alternates
///           would wait for every transfer
int warm_up(PipelineKind kind, int micro_batches, int to_end, int hidden = 1);

/// The reason why the schedule cannot be made for these stages; "" when it can.
std::string invalid_reason(PipelineKind kind, const PipelineShape& shape);

/// The order of each device. The orders of zb-h1, zb-h2, zb-v, v-half and v-min are made as if all
/// passes took the same time; the clock evaluates them with the times of `shape`.
///
///   requires  invalid_reason(kind, shape) is empty
///   ensures   first_fault is empty except for memory limits, and no passes wait for each other
///   source    interleaved: Narayanan et al. (arXiv 2104.04473); zb: Qi et al. (arXiv 2401.10241);
///             V: Qi et al. (arXiv 2405.15362)
DeviceOrders named_orders(PipelineKind kind, const PipelineShape& shape);

}  // namespace tessera
