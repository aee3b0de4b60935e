#include "planner/placement/internal/step_memory.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tessera {
namespace {

/// The instructions in the order in which they run, with exchanges of gradients in buckets.
class Buckets {
 public:
  Buckets(const StepRegisters& step, int64_t bucket)
      : step_(step), bucket_(bucket), places_(step.instructions.size()) {
    for (int i = 0; i < std::ssize(places_); ++i) places_[i] = {i, 0};
  }

  std::vector<int> order() {
    std::vector<std::pair<int, int>> movable;  // the instruction that makes the gradient first
    for (int i = 0; i < std::ssize(step_.instructions); ++i)
      if (may_move(i)) movable.emplace_back(gradient_of(i), i);
    std::ranges::sort(movable);
    fill(movable);
    std::vector<int> order(places_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int i) { return std::pair(places_[i], i); });
    return order;
  }

 private:
  const StepRegister& source(int exchange) const {
    return step_.registers[step_.instructions[exchange].reads.front()];
  }

  bool may_move(int index) const {
    const StepInstruction& instruction = step_.instructions[index];
    if (!instruction.is_exchange() || instruction.role != Role::kOptimizer) return false;
    const StepRegister &from = source(index), &to = step_.registers[instruction.writes.front()];
    return to.bytes <= from.bytes && !to.is_variable && !from.is_variable && from.writer >= 0 &&
           (step_.instructions[from.writer].role == Role::kBackward || may_move(from.writer));
  }

  int gradient_of(int exchange) const {
    const int writer = source(exchange).writer;
    return may_move(writer) ? gradient_of(writer) : writer;
  }

  /// What is after the last full bucket stays.
  void fill(const std::vector<std::pair<int, int>>& movable) {
    int64_t bytes = 0;
    size_t open = 0;
    for (size_t i = 0; i <= movable.size(); ++i) {
      const bool is_first =
          i == movable.size() || source(movable[i].second).writer == movable[i].first;
      if (is_first && bytes >= bucket_) {
        for (size_t k = open; k < i; ++k)
          places_[movable[k].second] = {movable[i - 1].first, static_cast<int>(k - open) + 1};
        open = i;
        bytes = 0;
      }
      if (is_first && i < movable.size()) bytes += source(movable[i].second).bytes;
    }
  }

  const StepRegisters& step_;
  const int64_t bucket_;
  std::vector<std::pair<int, int>> places_;  // by instruction: after which, and at which place
};

/// Bytes that are in use from one instruction to another, both included.
struct Block {
  int64_t bytes = 0;
  int begin = -1, end = -1;
  bool is_exchanged = false;  // other ranks read it: no kernel writes over it
};

class LiveBlocks {
 public:
  LiveBlocks(const StepRegisters& step, const MayWriteOver& may_write_over)
      : step_(step), may_write_over_(may_write_over) {
    for (const StepRegister& reg : step_.registers)
      blocks_.push_back({align_up(std::max<int64_t>(reg.bytes, 1)), reg.writer < 0 ? 0 : -1, 0});
  }

  /// Times count from 1: before the first instruction is 0.
  void run(const std::vector<int>& order, const std::vector<int64_t>& workspaces) {
    end_ = static_cast<int>(order.size()) + 1;
    for (int time = 1; time < end_; ++time) {
      const StepInstruction& instruction = step_.instructions[order[time - 1]];
      for (int written : instruction.writes) blocks_[written].begin = blocks_[written].end = time;
      for (int read : instruction.reads) {
        blocks_[read].end = time;
        blocks_[read].is_exchanged |= instruction.is_exchange();
      }
    }
    for (size_t i = 0; i < blocks_.size(); ++i)
      if (step_.registers[i].is_result) blocks_[i].end = end_;
    for (int time = 1; time < end_; ++time) {
      const StepInstruction& instruction = step_.instructions[order[time - 1]];
      if (instruction.is_exchange()) continue;
      write_over(instruction, time);
      if (workspaces[instruction.op] > 0)
        workspaces_.push_back({align_up(workspaces[instruction.op]), time, time});
    }
  }

  int64_t largest() const {
    std::vector<int64_t> change(end_ + 2, 0);
    const auto add = [&](const Block& block) {
      change[block.begin] += block.bytes;
      change[block.end + 1] -= block.bytes;
    };
    int64_t variables = 0;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (!step_.registers[i].is_variable)
        add(blocks_[i]);
      else if (step_.registers[i].writer < 0)
        variables += blocks_[i].bytes;
    }
    for (const Block& block : workspaces_) add(block);
    int64_t now = variables, largest = variables;
    for (int64_t bytes : change) largest = std::max(largest, now += bytes);
    return largest;
  }

 private:
  /// The first result takes the bytes of an operand that is read for the last time.
  void write_over(const StepInstruction& kernel, int time) {
    const int result = kernel.writes.front();
    const StepRegister& made = step_.registers[result];
    if (made.is_variable) return;
    for (size_t k = 0; k < kernel.reads.size(); ++k) {
      const int read = kernel.reads[k];
      Block& operand = blocks_[read];
      if (step_.registers[read].is_variable || operand.end != time || operand.is_exchanged ||
          !may_write_over_[kernel.op][k] || !(*step_.registers[read].placement == *made.placement))
        continue;
      operand.end = time - 1;
      return;
    }
  }

  const StepRegisters& step_;
  const MayWriteOver& may_write_over_;
  std::vector<Block> blocks_, workspaces_;  // of registers, of kernels
  int end_ = 0;
};

}  // namespace

Bytes peak_of(const StepRegisters& step, const MayWriteOver& may_write_over,
              const StepMemoryOptions& options) {
  std::vector<int> order(step.instructions.size());
  std::iota(order.begin(), order.end(), 0);
  if (options.bucket) order = Buckets(step, options.bucket->value()).order();
  LiveBlocks live(step, may_write_over);
  live.run(order, options.workspaces);
  return Bytes(live.largest());
}

}  // namespace tessera
