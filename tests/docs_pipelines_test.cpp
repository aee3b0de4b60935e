// The table of schedules in docs/pipelines.md is computed by the clock from their orders.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/schedule/auto_order.h"
#include "compiler/schedule/clock.h"
#include "compiler/schedule/named_orders.h"
#include "document_examples.h"

namespace tessera {
namespace {

constexpr int kDevices = 8, kMicroBatches = 24;

PipelineShape shape_for(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::kInterleaved:
      return chain_of(kDevices, 2, StagePlacement::kRoundRobin, kMicroBatches);
    case PipelineKind::kZeroBubbleV:
    case PipelineKind::kVHalf:
    case PipelineKind::kVMin: return chain_of(kDevices, 2, StagePlacement::kV, kMicroBatches);
    default: return chain_of(kDevices, 1, StagePlacement::kRoundRobin, kMicroBatches);
  }
}

DeviceOrders orders_of(PipelineKind kind, PipelineShape& shape) {
  if (kind != PipelineKind::kAuto) return named_orders(kind, shape);
  shape.memory_limits.assign(kDevices, kDevices);
  return auto_orders(shape).orders;
}

/// The table of bubbles, as fractions of the span and of the step.
std::string schedules_table() {
  std::string text = fmt::format("{:<12} {:>9} {:>12} {:>12} {:>14}\n", "schedule", "stages",
                                 "span bubble", "step bubble", "in flight");
  for (const PipelineFacts& facts : pipeline_schedules()) {
    PipelineShape shape = shape_for(facts.kind);
    const PassTimeline timeline = *simulate_passes(shape, orders_of(facts.kind, shape));
    double bubble = 0;
    for (const DeviceUse& use : timeline.devices)
      bubble = std::max(bubble, use.bubble() / use.span());
    const double busy = timeline.devices.front().busy;  // the same on all
    text += fmt::format("{:<12} {:>9} {:>11.1f}% {:>11.1f}% {:>14.3g}\n", facts.name,
                        shape.stages.size(), 100 * bubble,
                        100 * (timeline.duration() - busy) / timeline.duration(),
                        timeline.max_memory());
  }
  return text;
}

TEST(DocsPipelines, TheTableOfSchedulesIsWhatTheClockSays) {
  expect_examples("docs/pipelines.md", {{"schedules", schedules_table}});
}

}  // namespace
}  // namespace tessera
