#include "ir/models/over_time.h"

#include "ir/ops/control/control.h"

namespace tessera {
namespace {

constexpr int64_t kTimeDim = 1;

/// x[B, iteration, I] as [B, I].
ValueId row_at(Builder& region, ValueId x, ValueId iteration) {
  const Shape shape = region.shape(x);
  const ValueId row = region.dynamic_slice(x, {iteration}, {kTimeDim}, {1}, "at");
  return region.reshape(row, {shape[0], shape[2]}, "x");
}

/// outputs[B, T, H] with h[B, H] at `iteration`.
ValueId with_row(Builder& region, ValueId outputs, ValueId h, ValueId iteration) {
  const Shape shape = region.shape(h);
  const ValueId row = region.reshape(h, {shape[0], 1, shape[1]}, "row");
  return region.dynamic_update(outputs, row, {iteration}, {kTimeDim}, "outputs");
}

}  // namespace

OverTime over_time(Builder& builder, ValueId x, const std::vector<ValueId>& state,
                   const std::vector<ValueId>& captured, const Cell& cell, std::string_view name) {
  const Shape shape = builder.shape(x), first = builder.shape(state.at(0));
  LoopOptions loop;
  loop.carried = {builder.constant({DType::kF32, {shape[0], shape[1], first[1]}}, 0,
                                   std::string(name) + ".outputs")};
  loop.carried.insert(loop.carried.end(), state.begin(), state.end());
  loop.captured = {x};
  loop.captured.insert(loop.captured.end(), captured.begin(), captured.end());
  loop.body = [&cell](Builder& region, const RegionValues& values) {
    const ValueId place = row_at(region, values.captured[0], values.iteration);
    std::vector<ValueId> next =
        cell(region, place, {values.carried.begin() + 1, values.carried.end()},
             {values.captured.begin() + 1, values.captured.end()});
    next.insert(next.begin(), with_row(region, values.carried[0], next[0], values.iteration));
    return next;
  };
  loop.max_iterations = shape[1];
  loop.name = name;
  const Loop run = build_while(builder, loop);
  return {run.results[0], {run.results.begin() + 1, run.results.end()}};
}

}  // namespace tessera
