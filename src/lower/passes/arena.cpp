#include "lower/passes/arena.h"

#include <algorithm>
#include <numeric>

#include "lower/program_uses.h"

namespace tessera {
namespace {

/// Registers that use the same bytes one after the other, and the instructions during which they
/// do, counted from 1. 0 is before the first instruction.
struct Block {
  int64_t bytes = 0;
  int begin = 0;
  int end = 0;
  int64_t offset = 0;
};

struct LiveRanges {
  IndexedVector<RegisterIndex, int> begin, end;  // -1: never
  /// Another rank or another stream uses it too: an exchange reads it, or a copy reads or fills it.
  IndexedVector<RegisterIndex, bool> is_shared;
};

/// Inputs live from before the first instruction, those of one micro-batch from their first reader;
/// results live until after the last instruction.
LiveRanges find_live_ranges(const Program& program) {
  const ProgramUses uses(program);
  const int count = program.registers.size(), last = program.instructions.size() + 1;
  LiveRanges live{IndexedVector<RegisterIndex, int>(count, -1),
                  IndexedVector<RegisterIndex, int>(count, -1),
                  IndexedVector<RegisterIndex, bool>(count, false)};
  for (const TaskInput& input : program.inputs)
    live.begin[input.value] = live.end[input.value] =
        program.registers[input.value].micro_batch.index < 0
            ? 0
            : feed_position(uses, input.value).value() + 1;
  for (InstructionIndex i : program.instructions.indices()) {
    const ExchangeStep* exchange = program.instructions[i].exchange();
    const bool is_early = exchange && !exchange->issue_after.is_none();
    for (RegisterIndex reg : program.instructions[i].writes()) {
      live.begin[reg] = is_early ? exchange->issue_after.value() + 2 : i.value() + 1;
      live.end[reg] = i.value() + 1;
    }
    if (exchange)
      for (RegisterIndex source : exchange->sources) live.is_shared[source] = true;
  }
  for (RegisterIndex reg : program.registers.indices())
    if (const InstructionIndex reader = uses.last_reader(reg); !reader.is_none())
      live.end[reg] = reader.value() + 1;
  for (const auto& [name, reg] : program.results) live.end[reg] = last;
  // Copies run on streams of their own, beside the order list: no other register shares the bytes
  // of their source and target.
  for (const Instruction& instruction : program.instructions)
    if (const CopyStep* copy = instruction.copy())
      for (RegisterIndex reg : {copy->source, copy->target}) {
        live.begin[reg] = 0;
        live.end[reg] = last;
        live.is_shared[reg] = true;
      }
  return live;
}

/// The operand whose bytes the first result of `at` may take, or none.
RegisterIndex reusable_operand(const Program& program, const LiveRanges& live,
                               InstructionIndex at) {
  const KernelStep* kernel = program.instructions[at].kernel();
  if (!kernel || kernel->outputs.empty()) return {};
  const Register& result = program.registers[kernel->outputs.front()];
  if (result.storage != Register::Storage::kArena) return {};
  for (RegisterIndex input : kernel->inputs) {
    const Register& operand = program.registers[input];
    if (operand.storage == Register::Storage::kArena && live.end[input] == at.value() + 1 &&
        !live.is_shared[input] && operand.type == result.type && operand.attr == result.attr &&
        may_write_over(*kernel, input, program.kernels.get()))
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

Bytes max_live_bytes(const std::vector<Block>& blocks, int instructions) {
  std::vector<int64_t> change(static_cast<size_t>(instructions) + 4, 0);
  for (const Block& block : blocks) {
    change[block.begin] += block.bytes;
    change[static_cast<size_t>(block.end) + 1] -= block.bytes;
  }
  int64_t alive = 0, most = 0;
  for (int64_t c : change) most = std::max(most, alive += c);
  return Bytes(most);
}

/// Plans the arena of one mesh.
ArenaPlan plan_one(Program& program, const LiveRanges& live, MeshIndex mesh) {
  IndexedVector<RegisterIndex, int> block_of(program.registers.size(), -1);
  std::vector<Block> blocks;
  const auto add = [&](RegisterIndex reg, RegisterIndex reused) {
    if (program.registers[reg].storage != Register::Storage::kArena ||
        program.registers[reg].mesh != mesh)
      return;
    if (!reused.is_none() && !live.is_shared[reg]) {
      block_of[reg] = block_of[reused];
      Block& block = blocks[block_of[reg]];
      block.end = std::max(block.end, live.end[reg]);
    } else {
      block_of[reg] = static_cast<int>(blocks.size());
      blocks.push_back({align_up(std::max<int64_t>(program.registers[reg].size.value(), 1)),
                        live.begin[reg], live.end[reg], 0});
    }
  };
  for (const TaskInput& input : program.inputs) add(input.value, {});
  for (InstructionIndex at : program.instructions.indices()) {
    RegisterIndex reused = reusable_operand(program, live, at);
    for (RegisterIndex written : program.instructions[at].writes()) {
      add(written, reused);
      reused = {};
    }
  }
  place(blocks);
  ArenaPlan plan{Bytes(0), max_live_bytes(blocks, program.instructions.size())};
  for (const Block& block : blocks)
    plan.size = std::max(plan.size, Bytes(block.offset + block.bytes));
  for (RegisterIndex reg : program.registers.indices())
    if (block_of[reg] >= 0) program.registers[reg].offset = blocks[block_of[reg]].offset;
  return plan;
}

}  // namespace

ArenaPlans plan_arenas(Program& program) {
  const LiveRanges live = find_live_ranges(program);
  ArenaPlans plans;
  for (MeshIndex mesh : program.meshes.indices()) plans.push_back(plan_one(program, live, mesh));
  return plans;
}

}  // namespace tessera
