#include "compiler/schedule/internal/pipeline_pieces.h"

#include <algorithm>
#include <iterator>

namespace tessera {
namespace {

bool is_backward(const PipelineStep& piece) {
  return piece.micro_batch >= 0 && piece.role != Role::kForward;
}

double busiest(const PipelineShape& shape) {
  std::vector<double> busy(shape.devices, 0);
  for (const PipelineStage& stage : shape.stages)
    busy[stage.device] +=
        time_of(stage.costs, PassKind::kForward) + time_of(stage.costs, PassKind::kBackward);
  return *std::max_element(busy.begin(), busy.end());
}

}  // namespace

PipelinePieces::PipelinePieces(const std::vector<PipelineStep>& work,
                               const PipelineOptions& options)
    : work_(work), options_(options), stages_(static_cast<int>(options.devices.size())) {
  find_prologue();
  find_passes();
}

void PipelinePieces::find_prologue() {
  prologue_.assign(work_.size(), false);
  for (size_t i = work_.size(); i-- > 0;) {
    if (!prologue_[i] && work_[i].micro_batch < 0) continue;
    for (int needed : work_[i].needs) {
      const int micro_batch = work_[needed].micro_batch;
      const bool of_all =
          micro_batch < 0 ||
          micro_batch > work_[i].micro_batch;  // such as a sum over all micro-batches
      if (prologue_[i] || of_all) prologue_[needed] = true;
    }
  }
}

void PipelinePieces::find_passes() {
  std::vector<bool> leads(work_.size(), false);  // to a backward piece of another stage
  for (size_t i = work_.size(); i-- > 0;) {
    if (!is_backward(work_[i])) continue;
    for (int needed : work_[i].needs)
      if (leads[i] || work_[needed].stage != work_[i].stage) leads[needed] = true;
  }
  std::vector<bool> has_leader(stages_, false);
  for (size_t i = 0; i < work_.size(); ++i)
    if (leads[i] && is_backward(work_[i])) has_leader[work_[i].stage] = true;
  for (int stage = 0; stage < stages_; ++stage)
    if (!has_leader[stage]) mark_chains_to_the_last(stage, leads);

  pass_.resize(work_.size());
  lists_ = PassTable<std::vector<int>>(stages_, options_.micro_batches);
  for (int i = 0; i < std::ssize(work_); ++i) {
    const PipelineStep& piece = work_[i];
    if (piece.micro_batch < 0 || prologue_[i]) continue;
    const PassKind kind = piece.role == Role::kForward ? PassKind::kForward
                          : leads[i]                   ? PassKind::kInputGradient
                                                       : PassKind::kWeightGradient;
    pass_[i] = kind;
    lists_.at(kind, piece.stage, piece.micro_batch).push_back(i);
  }
}

/// Marks, for each micro-batch, the pieces that lead to the last link of the longest chain of its
/// backward pieces of one stage.
void PipelinePieces::mark_chains_to_the_last(int stage, std::vector<bool>& leads) const {
  const auto is_inside = [&](int i) { return is_backward(work_[i]) && work_[i].stage == stage; };
  const auto is_link = [&](int piece, int needed) {
    return is_inside(needed) && work_[needed].micro_batch == work_[piece].micro_batch;
  };
  std::vector<int> depth(work_.size(), 0);
  std::vector<int> last(options_.micro_batches, -1);  // by micro-batch
  for (int i = 0; i < std::ssize(work_); ++i) {
    if (!is_inside(i)) continue;
    int& own = depth[i] = 1;
    for (int needed : work_[i].needs)
      if (is_link(i, needed)) own = std::max(own, depth[needed] + 1);
    int& deepest = last[work_[i].micro_batch];
    if (deepest < 0 || own > depth[deepest]) deepest = i;
  }
  std::vector<int> open;
  std::copy_if(last.begin(), last.end(), std::back_inserter(open), [](int i) { return i >= 0; });
  while (!open.empty()) {
    const int piece = open.back();
    open.pop_back();
    for (int needed : work_[piece].needs)
      if (is_link(piece, needed) && !leads[needed]) {
        leads[needed] = true;
        open.push_back(needed);
      }
  }
}

std::vector<int> PipelinePieces::at(const Pass& pass) const {
  const auto list = [&](PassKind kind) -> const std::vector<int>& {
    return lists_.at(kind, pass.stage, pass.micro_batch);
  };
  if (pass.kind != PassKind::kBackward) return list(pass.kind);
  const std::vector<int>& first = list(PassKind::kInputGradient);
  const std::vector<int>& second = list(PassKind::kWeightGradient);
  std::vector<int> both;
  std::merge(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(both));
  return both;
}

/// Does the piece need a piece of another pass? The needs of a pass in earlier micro-batches (a sum
/// so far) are of its own stage and kind, whose passes are in order.
bool PipelinePieces::is_link(size_t piece, int needed) const {
  return pass_[piece] && pass_[needed] && work_[needed].micro_batch == work_[piece].micro_batch &&
         (work_[needed].stage != work_[piece].stage || pass_[needed] != pass_[piece]);
}

std::optional<PipelinePieces::Link> PipelinePieces::link(const PassNeed& pass,
                                                         const PassNeed& needed) const {
  const auto is_of = [&](int piece, const PassNeed& one) {
    return work_[piece].stage == one.stage && pass_[piece] == one.kind;
  };
  for (int i = 0; i < std::ssize(work_); ++i)
    for (int other : work_[i].needs)
      if (is_link(i, other) && is_of(i, pass) && is_of(other, needed)) return Link{i, other};
  return std::nullopt;
}

PipelineShape PipelinePieces::shape() const {
  PipelineShape shape;
  shape.micro_batches = options_.micro_batches;
  shape.devices = *std::max_element(options_.devices.begin(), options_.devices.end()) + 1;
  for (int k = 0; k < stages_; ++k) {
    PipelineStage stage;
    stage.device = options_.devices[k];
    int neighbours = 0;  // stages of this device
    for (int device : options_.devices) neighbours += device == stage.device ? 1 : 0;
    stage.costs = {0, 0, 0, 1.0 / neighbours, 0};
    stage.needs[1].push_back({k, PassKind::kForward});
    stage.needs[2].push_back({k, PassKind::kInputGradient});
    shape.stages.push_back(std::move(stage));
  }
  for (size_t i = 0; i < work_.size(); ++i) {
    if (!pass_[i]) continue;
    PipelineStage& stage = shape.stages[work_[i].stage];
    double& time = *pass_[i] == PassKind::kForward         ? stage.costs.forward
                   : *pass_[i] == PassKind::kInputGradient ? stage.costs.input_gradient
                                                           : stage.costs.weight_gradient;
    time += work_[i].work / options_.micro_batches;
    auto& needs = stage.needs[index_of(*pass_[i])];
    for (int needed : work_[i].needs) {
      if (!is_link(i, needed)) continue;
      const PassNeed need{work_[needed].stage, *pass_[needed]};
      if (std::find(needs.begin(), needs.end(), need) == needs.end()) needs.push_back(need);
    }
  }
  shape.transfer = options_.transfer * busiest(shape);
  return shape;
}

}  // namespace tessera
