#include "compiler/lower/internal/passes/arena.h"

#include <algorithm>
#include <map>

#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/live_ranges.h"
#include "compiler/lower/internal/storage/block_layout.h"
#include "compiler/lower/storage/hazards.h"

namespace tessera {
namespace {

/// Of all arenas of a program: about 0.1 s beyond the two layouts that each of them gets. Most need
/// one layout and far fewer steps.
constexpr int64_t kStepsOfLayouts = 2'000'000, kHazardSteps = 2'000'000;

/// The operand whose bytes the first result of the instance at `time` may take, or none.
RegisterIndex reusable_operand(const Program& program, const InstanceUses& uses,
                               const LiveRanges& live, Time time) {
  const InstructionInstance& at = uses.order()[time];
  RegisterIndex found;
  uses.registers().for_each_read(
      program.instructions[at.instruction], at.micro_batch, [&](RegisterIndex input) {
        if (found.is_none() && live.end[input] == time.value() + 1 && !live.is_shared[input] &&
            uses.registers().is_in_arena(program, input) &&
            may_hold_result(program, uses, time, input))
          found = input;
      });
  return found;
}

/// What is alive in the arenas, and which block of its arena a register is.
struct ArenaContents {
  IndexedVector<MeshIndex, LiveBlocks> blocks;
  IndexedVector<RegisterIndex, BlockIndex> block_of;  // none: it is in no arena
  std::map<MeshIndex, BlockIndex> windows;            // of offloaded variables
};

/// Adds the windows of offloaded variables, which live for the whole step: a copy fills the first
/// places as soon as the step begins.
void add_windows(const Program& program, const InstanceUses& uses, ArenaContents& contents) {
  for (const auto& [mesh, window] : program.windows) {
    const BlockIndex block = contents.blocks[mesh].push_back(
        {align_up(std::max<int64_t>(window.size.value(), 1)), 0, uses.order().size() + 1, true});
    contents.windows[mesh] = block;
    for (const auto& [reg, offset] : window.offsets)
      contents.block_of[uses.registers().whole(reg)] = block;
  }
}

ArenaContents contents_of_arenas(const Program& program, const InstanceUses& uses) {
  const LiveRanges live = find_live_ranges(program, uses);
  const RegisterInstances& registers = uses.registers();
  ArenaContents contents{IndexedVector<MeshIndex, LiveBlocks>(program.meshes.size()),
                         IndexedVector<RegisterIndex, BlockIndex>(registers.size()),
                         {}};
  add_windows(program, uses, contents);
  const auto add = [&](RegisterIndex index, RegisterIndex reused) {
    if (!registers.is_in_arena(program, index) || !contents.block_of[index].is_none()) return;
    const RegisterForm& reg = program.registers[registers.form_of(index)];
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
  for (const ProgramInput& input : program.inputs)
    for (RegisterIndex reg : registers.at(input.value)) add(reg, {});
  for (Time time : uses.order().indices()) {
    RegisterIndex reused = reusable_operand(program, uses, live, time);
    const InstructionInstance& instance = uses.order()[time];
    registers.for_each_written(program.instructions[instance.instruction], instance.micro_batch,
                               [&](RegisterIndex written) {
                                 add(written, reused);
                                 reused = {};
                               });
  }
  return contents;
}

/// Plans the arena of one mesh.
///   steps  as of lay_out
ArenaPlan plan_arena(LiveBlocks blocks, int64_t hazard_steps, int64_t& steps) {
  BlockLayout layout = lay_out(blocks, steps);
  reduce_hazards(blocks, hazard_steps, layout);
  const Bytes bound(live_bound(blocks));
  return {Bytes(layout.size), bound, std::move(blocks), std::move(layout.offsets)};
}

}  // namespace

IndexedVector<MeshIndex, LiveBlocks> arena_blocks(const Program& program) {
  return contents_of_arenas(program, InstanceUses(program)).blocks;
}

ArenaPlans plan_arenas(Program& program) {
  const InstanceUses uses(program);
  ArenaContents contents = contents_of_arenas(program, uses);
  ArenaPlans plans;
  const int meshes = program.meshes.size();
  int64_t steps = kStepsOfLayouts;
  for (MeshIndex mesh : program.meshes.indices()) {
    // What one arena leaves of its share, the next ones may use.
    const int64_t share = steps / (meshes - mesh.value());
    int64_t left = share;
    plans.push_back(plan_arena(std::move(contents.blocks[mesh]), kHazardSteps / meshes, left));
    steps -= share - left;
  }
  program.offsets.assign(uses.registers().size(), 0);
  for (RegisterIndex reg : program.offsets.indices())
    if (const BlockIndex block = contents.block_of[reg]; !block.is_none()) {
      const MeshIndex mesh = program.registers[uses.registers().form_of(reg)].mesh;
      program.offsets[reg] = plans[mesh].offsets[block];
    }
  for (const auto& [mesh, window] : program.windows)
    for (const auto& [reg, offset] : window.offsets)
      program.offsets[uses.registers().whole(reg)] += offset;
  return plans;
}

}  // namespace tessera
