#include "compiler/schedule/internal/stage_lists.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "compiler/schedule/clock.h"

namespace tessera {
namespace {

class Merge {
 public:
  Merge(const PipelineShape& shape, const std::vector<std::vector<Pass>>& lists)
      : shape_(shape),
        lists_(lists),
        clock_(shape),
        ends_(shape.stage_count(), shape.micro_batches, -1),
        next_(lists.size(), 0),
        free_(shape.devices, 0) {}

  DeviceOrders run() {
    DeviceOrders orders(shape_.devices);
    size_t left = 0;
    for (const auto& list : lists_) left += list.size();
    for (; left > 0; --left) {
      const int stage = first_to_begin();
      if (stage < 0) refuse_cycle();
      const Pass pass = lists_[stage][next_[stage]++];
      finish(pass);
      orders[shape_.stages[stage].device].push_back(pass);
    }
    return orders;
  }

 private:
  int first_to_begin() {
    int best = -1;
    double best_start = 0;
    for (int k = 0; k < std::ssize(lists_); ++k) {
      if (next_[k] == lists_[k].size()) continue;
      const double start = start_of(lists_[k][next_[k]]);
      if (start < 0 || (best >= 0 && start >= best_start)) continue;
      best = k;
      best_start = start;
    }
    return best;
  }

  /// Negative when it has to wait for a pass that has not ended.
  double start_of(const Pass& pass) {
    double start = free_[shape_.stages[pass.stage].device];
    for (const PassClock::Need& need : clock_.needs_of(pass)) {
      const double end = ends_.at(need.kind, need.stage, pass.micro_batch);
      if (end < 0) return -1;
      start = std::max(start, end + need.delay);
    }
    return start;
  }

  void finish(const Pass& pass) {
    const PipelineStage& stage = shape_.stages[pass.stage];
    const double end = start_of(pass) + time_of(stage.costs, pass.kind);
    free_[stage.device] = end;
    if (pass.kind != PassKind::kBackward) {
      ends_.at(pass.kind, pass.stage, pass.micro_batch) = end;
      return;
    }
    for (PassKind kind : {PassKind::kInputGradient, PassKind::kWeightGradient})
      ends_.at(kind, pass.stage, pass.micro_batch) = end;
  }

  const PipelineShape& shape_;
  const std::vector<std::vector<Pass>>& lists_;
  PassClock clock_;         // for the needs
  PassTable<double> ends_;  // negative: not done yet
  std::vector<size_t> next_;
  std::vector<double> free_;
};

}  // namespace

void refuse_cycle(const std::string& example) {
  throw UserError(
      "the stages of the pipeline wait for each other in a cycle",
      (example.empty() ? "" : example + "; ") +
          "a stage does the forward of a micro-batch in one piece, and so the backward, and one "
          "stage needs what another makes of what it made itself",
      "mark the ops so that values go from stage to stage one way only, or use one micro-batch",
      ExitCode::kBadConfig);
}

std::vector<PassNeed> find_cycle(const PipelineShape& shape) {
  constexpr std::array kKinds{PassKind::kForward, PassKind::kInputGradient,
                              PassKind::kWeightGradient};
  std::vector<std::array<bool, 3>> done(shape.stages.size(), {false, false, false});
  const auto needs_of = [&](const PassNeed& pass) -> const std::vector<PassNeed>& {
    return shape.stages[pass.stage].needs_of(pass.kind);
  };
  const auto is_done = [&](const PassNeed& pass) { return done[pass.stage][index_of(pass.kind)]; };
  std::vector<PassNeed> left;
  for (int k = 0; k < shape.stage_count(); ++k)
    for (PassKind kind : kKinds) left.push_back({k, kind});
  while (std::erase_if(left, [&](const PassNeed& pass) {
           const bool can_end = std::ranges::all_of(needs_of(pass), is_done);
           done[pass.stage][index_of(pass.kind)] = can_end;
           return can_end;
         }) > 0) {
  }
  if (left.empty()) return {};
  // Each pass that is left needs another one that is left.
  std::vector<PassNeed> path{left.front()};
  while (true) {
    const auto& needs = needs_of(path.back());
    const PassNeed next = *std::ranges::find_if_not(needs, is_done);
    const auto first = std::ranges::find(path, next);
    if (first != path.end()) return std::vector<PassNeed>(first, path.end());
    path.push_back(next);
  }
}

std::vector<int> distances_to_end(const PipelineShape& shape) {
  const size_t count = shape.stages.size();
  std::vector<int> distance(count, 1);
  for (size_t round = 0; round <= count; ++round) {
    bool changed = false;
    for (size_t k = 0; k < count; ++k)
      for (const PassNeed& need : shape.stages[k].needs_of(PassKind::kForward)) {
        int& before = distance[need.stage];
        if (before >= distance[k] + 1) continue;
        before = distance[k] + 1;
        changed = true;
      }
    if (!changed) return distance;
  }
  refuse_cycle();
}

std::vector<Pass> alternate(int stage, int micro_batches, int ahead) {
  std::vector<Pass> list;
  for (int i = 0; i < micro_batches + ahead; ++i) {
    if (i >= ahead) list.push_back({PassKind::kBackward, stage, i - ahead});
    if (i < micro_batches) list.push_back({PassKind::kForward, stage, i});
  }
  return list;
}

DeviceOrders merge_stage_lists(const PipelineShape& shape,
                               const std::vector<std::vector<Pass>>& lists) {
  return Merge(shape, lists).run();
}

}  // namespace tessera
