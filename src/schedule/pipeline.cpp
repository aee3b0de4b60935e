#include "schedule/pipeline.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

class Pipeline {
 public:
  Pipeline(const std::vector<PipelineStep>& work, int stages, int micro_batches, PipelineKind kind)
      : work_(work), stages_(stages), micro_batches_(micro_batches), kind_(kind), done_(work.size(), false) {}

  std::vector<int> run() {
    find_prologue();
    find_distances();
    for (int i = 0; i < count(); ++i)
      if (is_prologue_[static_cast<size_t>(i)]) emit(i);
    emit_blocks();
    for (int i = 0; i < count(); ++i)
      if (!done_[static_cast<size_t>(i)]) emit(i);
    return std::move(order_);
  }

 private:
  int count() const { return static_cast<int>(work_.size()); }
  const PipelineStep& at(int index) const { return work_[static_cast<size_t>(index)]; }

  /// What is done once and is needed by a micro-batch, and all that it needs in turn.
  void find_prologue() {
    is_prologue_.assign(work_.size(), false);
    for (int i = count() - 1; i >= 0; --i) {
      const bool needs_early = is_prologue_[static_cast<size_t>(i)] || at(i).micro_batch >= 0;
      if (!needs_early) continue;
      for (int needed : at(i).needs)
        if (is_prologue_[static_cast<size_t>(i)] || at(needed).micro_batch < 0) is_prologue_[static_cast<size_t>(needed)] = true;
    }
  }

  /// Stages on the longest way of forward work from each stage to the end, itself counted.
  void find_distances() {
    to_end_.assign(static_cast<size_t>(stages_), 1);
    for (int i = count() - 1; i >= 0; --i) {
      if (at(i).role != Role::kForward || at(i).micro_batch < 0) continue;
      for (int needed : at(i).needs) {
        if (at(needed).stage == at(i).stage || at(needed).micro_batch < 0) continue;
        int& distance = to_end_[static_cast<size_t>(at(needed).stage)];
        distance = std::max(distance, to_end_[static_cast<size_t>(at(i).stage)] + 1);
      }
    }
  }

  void emit(int index) {
    for (int needed : at(index).needs) ensure(done_[static_cast<size_t>(needed)], "the order of a pipeline puts work after what it needs");
    done_[static_cast<size_t>(index)] = true;
    order_.push_back(index);
  }

  struct Block {
    std::vector<int> pieces;
  };

  /// The forward and backward blocks of one stage in its order.
  std::vector<Block> blocks_of(int stage) const {
    std::vector<Block> forward(static_cast<size_t>(micro_batches_)), backward(static_cast<size_t>(micro_batches_));
    for (int i = 0; i < count(); ++i) {
      const PipelineStep& piece = at(i);
      if (piece.stage != stage || piece.micro_batch < 0 || is_prologue_[static_cast<size_t>(i)]) continue;
      (piece.role == Role::kForward ? forward : backward)[static_cast<size_t>(piece.micro_batch)].pieces.push_back(i);
    }
    std::vector<Block> blocks;
    const int ahead = warm_up(kind_, micro_batches_, to_end_[static_cast<size_t>(stage)]);
    for (int i = 0; i < micro_batches_ + ahead; ++i) {
      if (i >= ahead) blocks.push_back(std::move(backward[static_cast<size_t>(i - ahead)]));
      if (i < micro_batches_) blocks.push_back(std::move(forward[static_cast<size_t>(i)]));
    }
    return blocks;
  }

  bool may_emit(const Block& block) const {
    for (int piece : block.pieces)
      for (int needed : at(piece).needs)
        if (!done_[static_cast<size_t>(needed)] && std::find(block.pieces.begin(), block.pieces.end(), needed) == block.pieces.end())
          return false;
    return true;
  }

  /// Stage by stage, whatever may come next; each stage in its own order.
  void emit_blocks() {
    std::vector<std::vector<Block>> blocks;
    for (int stage = 0; stage < stages_; ++stage) blocks.push_back(blocks_of(stage));
    std::vector<size_t> next(blocks.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < blocks.size(); ++stage) {
        if (next[stage] == blocks[stage].size() || !may_emit(blocks[stage][next[stage]])) continue;
        for (int piece : blocks[stage][next[stage]].pieces) emit(piece);
        ++next[stage];
        moved = true;
      }
    }
    for (size_t stage = 0; stage < blocks.size(); ++stage)
      if (next[stage] < blocks[stage].size())
        throw UserError(
            "the stages of the pipeline wait for each other in a circle",
            "a stage does the forward of a micro-batch in one piece, and one stage needs what another makes of what it made itself",
            "mark the ops so that values go from stage to stage one way only, or use one micro-batch", ExitCode::kBadConfig);
  }

  const std::vector<PipelineStep>& work_;
  int stages_, micro_batches_;
  PipelineKind kind_;
  std::vector<bool> done_, is_prologue_;
  std::vector<int> to_end_;
  std::vector<int> order_;
};

}  // namespace

std::string_view to_text(PipelineKind kind) {
  return kind == PipelineKind::kForwardThenBackward ? "f-then-b" : "1f1b";
}

PipelineKind parse_pipeline_kind(std::string_view text) {
  for (PipelineKind kind : {PipelineKind::kForwardThenBackward, PipelineKind::kOneForwardOneBackward})
    if (text == to_text(kind)) return kind;
  throw UserError("'" + std::string(text) + "' is not a schedule", "the schedules are f-then-b and 1f1b", "use one of these",
                  ExitCode::kBadConfig);
}

int warm_up(PipelineKind kind, int micro_batches, int to_end) {
  return kind == PipelineKind::kForwardThenBackward ? micro_batches : std::min(micro_batches, to_end);
}

std::vector<int> pipeline_order(const std::vector<PipelineStep>& work, int stages, int micro_batches, PipelineKind kind) {
  return Pipeline(work, stages, micro_batches, kind).run();
}

}  // namespace tessera
