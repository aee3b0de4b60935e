#include "lower/passes/arena.h"

#include <algorithm>

#include "lower/program_uses.h"
#include "lower/storage/block_layout.h"
#include "lower/storage/waits.h"

namespace tessera {
namespace {

/// Of all arenas of a program: about 0.1 s beyond the two layouts that each of them gets. Most need
/// one layout and far fewer steps.
constexpr int64_t kStepsOfLayouts = 2'000'000, kStepsOfWaits = 2'000'000;

struct LiveRanges {
  IndexedVector<RegisterIndex, int> begin, end;  // -1: never
  /// Another rank or another stream uses it too: an exchange reads it, or a copy reads or fills it.
  IndexedVector<RegisterIndex, bool> is_shared;
  /// A copy reads or fills it, beside the order list: no other register uses its bytes.
  IndexedVector<RegisterIndex, bool> is_copied;
};

/// Inputs live from before the first instruction, those of one micro-batch from their first reader;
/// results live until after the last instruction.
LiveRanges find_live_ranges(const Program& program) {
  const ProgramUses uses(program);
  const int count = program.registers.size(), last = program.instructions.size() + 1;
  LiveRanges live{IndexedVector<RegisterIndex, int>(count, -1),
                  IndexedVector<RegisterIndex, int>(count, -1),
                  IndexedVector<RegisterIndex, bool>(count, false),
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
  // Copies run on streams of their own.
  for (const Instruction& instruction : program.instructions)
    if (const CopyStep* copy = instruction.copy())
      for (RegisterIndex reg : {copy->source, copy->target}) {
        live.begin[reg] = 0;
        live.end[reg] = last;
        live.is_shared[reg] = live.is_copied[reg] = true;
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

/// What is alive in the arenas, and which block of its arena a register is.
struct ArenaContents {
  IndexedVector<MeshIndex, LiveBlocks> blocks;
  IndexedVector<RegisterIndex, BlockIndex> block_of;  // none: it is in no arena
};

ArenaContents contents_of_arenas(const Program& program, const LiveRanges& live) {
  ArenaContents contents{IndexedVector<MeshIndex, LiveBlocks>(program.meshes.size()),
                         IndexedVector<RegisterIndex, BlockIndex>(program.registers.size())};
  const auto add = [&](RegisterIndex index, RegisterIndex reused) {
    const Register& reg = program.registers[index];
    if (reg.storage != Register::Storage::kArena) return;
    LiveBlocks& blocks = contents.blocks[reg.mesh];
    BlockIndex& block = contents.block_of[index];
    if (reused.is_none() || live.is_copied[index]) {
      block = blocks.push_back({align_up(std::max<int64_t>(total_size(reg).value(), 1)),
                                live.begin[index], live.end[index], live.is_shared[index]});
    } else {
      block = contents.block_of[reused];
      // Who writes the operand in the next step waits until the result was read elsewhere.
      blocks[block].end = std::max(blocks[block].end, live.end[index]);
      blocks[block].is_read_elsewhere = blocks[block].is_read_elsewhere || live.is_shared[index];
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
  return contents;
}

/// Plans the arena of one mesh.
///   steps  as of lay_out
ArenaPlan plan_arena(LiveBlocks blocks, int64_t steps_of_waits, int64_t& steps) {
  BlockLayout layout = lay_out(blocks, steps);
  reduce_waits(blocks, steps_of_waits, layout);
  const Bytes bound(live_bound(blocks));
  return {Bytes(layout.size), bound, std::move(blocks), std::move(layout.offsets)};
}

}  // namespace

ArenaPlans plan_arenas(Program& program) {
  ArenaContents contents = contents_of_arenas(program, find_live_ranges(program));
  ArenaPlans plans;
  const int meshes = program.meshes.size();
  int64_t steps = kStepsOfLayouts;
  for (MeshIndex mesh : program.meshes.indices()) {
    // What one arena leaves of its share, the next ones may use.
    const int64_t share = steps / (meshes - mesh.value());
    int64_t left = share;
    plans.push_back(plan_arena(std::move(contents.blocks[mesh]), kStepsOfWaits / meshes, left));
    steps -= share - left;
  }
  for (RegisterIndex i : program.registers.indices())
    if (const BlockIndex block = contents.block_of[i]; !block.is_none())
      program.registers[i].offset = plans[program.registers[i].mesh].offsets[block];
  return plans;
}

}  // namespace tessera
