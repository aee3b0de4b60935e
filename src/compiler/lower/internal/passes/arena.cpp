#include "compiler/lower/internal/passes/arena.h"

#include <algorithm>
#include <map>

#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/storage/block_layout.h"
#include "compiler/lower/storage/hazards.h"

namespace tessera {
namespace {

/// Of all arenas of a program: about 0.1 s beyond the two layouts that each of them gets. Most need
/// one layout and far fewer steps.
constexpr int64_t kStepsOfLayouts = 2'000'000, kHazardSteps = 2'000'000;

struct LiveRanges {
  IndexedVector<RegisterIndex, int> begin, end;  // -1: never
  /// Another rank or another stream uses it too: an exchange reads it, or a copy reads or fills it.
  IndexedVector<RegisterIndex, bool> is_shared;
  /// A copy reads or fills it, beside the order list: no other register uses its bytes.
  IndexedVector<RegisterIndex, bool> is_copied;
};

/// Inputs live from before the first instance, those of one micro-batch from their first reader;
/// results live until after the last instance.
LiveRanges find_live_ranges(const Program& program, const InstanceUses& uses) {
  const RegisterInstances& registers = uses.registers();
  const int count = registers.size(), last = uses.order().size() + 1;
  LiveRanges live{IndexedVector<RegisterIndex, int>(count, -1),
                  IndexedVector<RegisterIndex, int>(count, -1),
                  IndexedVector<RegisterIndex, bool>(count, false),
                  IndexedVector<RegisterIndex, bool>(count, false)};
  for (const ProgramInput& input : program.inputs)
    for (RegisterIndex reg : registers.at(input.value))
      live.begin[reg] = live.end[reg] = program.registers[input.value].micro_batch.index < 0
                                            ? 0
                                            : feed_position(uses, reg).value() + 1;
  const auto note_copied = [&](RegisterIndex reg) {  // copies run on streams of their own
    live.is_shared[reg] = live.is_copied[reg] = true;
  };
  for (Time time : uses.order().indices()) {
    const auto& [index, micro_batch, pass, issue_after] = uses.order()[time];
    const Instruction& instruction = program.instructions[index];
    const int begin = (issue_after.is_none() ? time.value() : issue_after.value() + 1) + 1;
    registers.for_each_written(instruction, micro_batch, [&](RegisterIndex reg) {
      live.begin[reg] = begin;
      live.end[reg] = time.value() + 1;
      if (instruction.copy()) note_copied(reg);
    });
    if (!instruction.kernel())
      registers.for_each_read(instruction, micro_batch, [&](RegisterIndex reg) {
        live.is_shared[reg] = true;
        if (instruction.copy()) note_copied(reg);
      });
  }
  for (RegisterIndex reg : live.end.indices())
    if (const Time reader = uses.last_reader(reg); !reader.is_none())
      live.end[reg] = reader.value() + 1;
  for (const auto& [name, reg] : program.results) live.end[registers.whole(reg)] = last;
  for (RegisterIndex reg : live.end.indices())
    if (live.is_copied[reg]) {
      live.begin[reg] = 0;
      live.end[reg] = last;
    }
  return live;
}

/// The operand whose bytes the first result of the instance at `time` may take, or none.
RegisterIndex reusable_operand(const Program& program, const InstanceUses& uses,
                               const LiveRanges& live, Time time) {
  const auto& [index, micro_batch, pass, issue_after] = uses.order()[time];
  const KernelForm* kernel = program.instructions[index].kernel();
  if (!kernel || kernel->outputs.empty()) return {};
  const RegisterInstances& registers = uses.registers();
  const RegisterForm& result = program.registers[kernel->outputs.front()];
  if (!registers.is_in_arena(program, registers.written(kernel->outputs.front(), micro_batch)))
    return {};
  RegisterIndex found;
  registers.for_each_read(program.instructions[index], micro_batch, [&](RegisterIndex input) {
    const RegisterForm& operand = program.registers[registers.form_of(input)];
    if (found.is_none() && registers.is_in_arena(program, input) &&
        live.end[input] == time.value() + 1 && !live.is_shared[input] &&
        operand.type == result.type && operand.attr == result.attr &&
        may_write_over(program, uses, time, input))
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
