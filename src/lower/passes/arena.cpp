#include "lower/passes/arena.h"

#include <algorithm>
#include <numeric>

#include "kernels/bind.h"

namespace tessera {
namespace {

/// Registers that share one place, one after the other, and the instructions during which it is
/// taken. Inputs live from before the first instruction (0), those of one micro-batch from their
/// first reader, results until after the last.
struct Block {
  int64_t bytes = 0;
  int begin = 0;
  int end = 0;
  int64_t offset = 0;
};

int64_t aligned(int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

struct LiveRanges {
  IndexedVector<RegisterIndex, int> begin, end;  // in instruction numbers from 1
  IndexedVector<RegisterIndex, bool> is_shared;  // with other ranks or another stream: an exchange
                                                 // reads it, or a copy reads or fills it
};

LiveRanges find_live_ranges(const Program& program) {
  const int count = program.registers.size();
  LiveRanges lives;
  lives.begin.assign(count, -1);
  lives.end.assign(count, -1);
  lives.is_shared.assign(count, false);
  const std::vector<int> first_reads = first_readers_of_inputs(program);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const RegisterIndex reg = program.inputs[i].value;
    const bool once_a_step = program.registers[reg].micro_batch.index < 0;
    lives.begin[reg] = lives.end[reg] = once_a_step ? 0 : first_reads[i] + 1;
  }
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    const int begin = instruction.issue_after < 0 ? i + 1 : instruction.issue_after + 2;
    for (RegisterIndex reg : instruction.writes()) lives.begin[reg] = begin, lives.end[reg] = i + 1;
    for (RegisterIndex reg : instruction.reads()) {
      lives.end[reg] = i + 1;
      if (instruction.is_exchange) lives.is_shared[reg] = true;
    }
  }
  const int last = static_cast<int>(program.instructions.size()) + 1;
  for (const auto& [name, reg] : program.results) lives.end[reg] = last;
  // Copies run on streams of their own, beside the order of the others: what they touch keeps its
  // place to itself.
  for (const Instruction& instruction : program.instructions)
    if (instruction.is_copy)
      for (RegisterIndex reg : {instruction.source, instruction.target}) {
        lives.begin[reg] = 0;
        lives.end[reg] = last;
        lives.is_shared[reg] = true;
      }
  return lives;
}

/// The operand whose place the first result of instruction `at` may take, or none.
RegisterIndex reusable_operand(const Program& program, const LiveRanges& lives, int at) {
  const Instruction& instruction = program.instructions[at];
  if (instruction.is_exchange || instruction.is_copy || instruction.step.outputs.empty()) return {};
  const Register& result = program.registers[instruction.step.outputs.front()];
  if (result.storage != Register::Storage::kArena) return {};
  for (RegisterIndex input : instruction.step.inputs) {
    const Register& operand = program.registers[input];
    if (operand.storage == Register::Storage::kArena && lives.end[input] == at + 1 &&
        !lives.is_shared[input] && operand.type == result.type && operand.attr == result.attr &&
        may_write_over(instruction.step, input, program.kernels.get()))
      return input;
  }
  return {};
}

void place(std::vector<Block>& blocks) {
  std::vector<size_t> by_size(blocks.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (size_t index : by_size) {
    Block& block = blocks[index];
    int64_t offset = 0;
    for (size_t other : placed) {
      const Block& neighbour = blocks[other];
      if (neighbour.end < block.begin || block.end < neighbour.begin) continue;
      if (offset + block.bytes <= neighbour.offset) break;
      offset = std::max(offset, neighbour.offset + neighbour.bytes);
    }
    block.offset = offset;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](int64_t o, size_t i) { return o < blocks[i].offset; }),
                  index);
  }
}

Bytes most_alive(const std::vector<Block>& blocks, int instructions) {
  std::vector<int64_t> change(static_cast<size_t>(instructions) + 4, 0);
  for (const Block& block : blocks) {
    change[block.begin] += block.bytes;
    change[static_cast<size_t>(block.end) + 1] -= block.bytes;
  }
  int64_t alive = 0, most = 0;
  for (int64_t c : change) most = std::max(most, alive += c);
  return Bytes(most);
}

/// Plans the arena of one mesh. A register of another mesh that an exchange reads lies elsewhere.
ArenaPlan plan_one(Program& program, const LiveRanges& lives, MeshIndex mesh) {
  IndexedVector<RegisterIndex, int> block_of(program.registers.size(), -1);
  std::vector<Block> blocks;
  const auto add = [&](RegisterIndex reg, RegisterIndex dying) {
    if (program.registers[reg].storage != Register::Storage::kArena ||
        program.registers[reg].mesh != mesh)
      return;
    if (!dying.is_none() && !lives.is_shared[reg]) {
      block_of[reg] = block_of[dying];
      Block& block = blocks[block_of[reg]];
      block.end = std::max(block.end, lives.end[reg]);
    } else {
      block_of[reg] = static_cast<int>(blocks.size());
      blocks.push_back({aligned(std::max<int64_t>(program.registers[reg].size.value(), 1)),
                        lives.begin[reg], lives.end[reg], 0});
    }
  };
  for (const TaskInput& input : program.inputs) add(input.value, {});
  for (int at = 0; at < static_cast<int>(program.instructions.size()); ++at) {
    const RegisterIndex dying = reusable_operand(program, lives, at);
    const auto written = program.instructions[at].writes();
    for (size_t i = 0; i < written.size(); ++i) add(written[i], i == 0 ? dying : RegisterIndex());
  }
  place(blocks);
  ArenaPlan plan{Bytes(0), most_alive(blocks, static_cast<int>(program.instructions.size()))};
  for (const Block& block : blocks)
    plan.size = std::max(plan.size, Bytes(block.offset + block.bytes));
  for (RegisterIndex reg : program.registers.indices())
    if (block_of[reg] >= 0) program.registers[reg].offset = blocks[block_of[reg]].offset;
  return plan;
}

}  // namespace

ArenaPlans plan_arenas(Program& program) {
  const LiveRanges lives = find_live_ranges(program);
  ArenaPlans plans;
  for (MeshIndex mesh : program.meshes.indices()) plans.push_back(plan_one(program, lives, mesh));
  return plans;
}

}  // namespace tessera
