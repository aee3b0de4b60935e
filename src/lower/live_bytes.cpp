#include "lower/live_bytes.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tessera {

RangeMaximum::RangeMaximum(int size)
    : size_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(size, 1))))),
      nodes_(2 * static_cast<size_t>(size_)) {}

void RangeMaximum::add(int node, int from, int to, int begin, int end, int64_t amount) {
  if (end <= from || to <= begin) return;
  if (begin <= from && to <= end) {
    nodes_[node].added += amount;
    nodes_[node].max += amount;
    return;
  }
  const int middle = (from + to) / 2;
  add(2 * node, from, middle, begin, end, amount);
  add(2 * node + 1, middle, to, begin, end, amount);
  nodes_[node].max = nodes_[node].added + std::max(nodes_[2 * node].max, nodes_[2 * node + 1].max);
}

int64_t RangeMaximum::max(int node, int from, int to, int begin, int end) const {
  if (end <= from || to <= begin) return std::numeric_limits<int64_t>::min();
  if (begin <= from && to <= end) return nodes_[node].max;
  const int middle = (from + to) / 2;
  const int64_t below =
      std::max(max(2 * node, from, middle, begin, end), max(2 * node + 1, middle, to, begin, end));
  return below == std::numeric_limits<int64_t>::min() ? below : nodes_[node].added + below;
}

namespace {

/// The instructions at which a register is alive: [begin, end).
struct LiveRange {
  int begin = 0;
  int end = 0;
};

LiveRange live_range(const Program& program, const ProgramUses& uses, RegisterIndex reg) {
  const InstructionIndex writer = uses.writer(reg), reader = uses.last_reader(reg);
  const bool is_fed_late = writer.is_none() && program.registers[reg].micro_batch.index >= 0;
  const int begin = is_fed_late ? feed_position(uses, reg).value() : std::max(0, writer.value());
  if (uses.is_live_out(reg)) return {begin, program.instructions.size()};
  return {begin, std::max(begin, reader.value()) + 1};
}

/// May the kernel at `reader` write its first result over the register?
bool may_be_written_over(const Program& program, InstructionIndex reader, RegisterIndex index) {
  const KernelStep* kernel = program.instructions[reader].kernel();
  if (!kernel || kernel->outputs.empty()) return false;
  const Register &operand = program.registers[index],
                 &result = program.registers[kernel->outputs.front()];
  return result.storage == Register::Storage::kArena && operand.type == result.type &&
         operand.attr == result.attr && may_write_over(*kernel, index, program.kernels.get());
}

}  // namespace

LiveBytes::LiveBytes(const Program& program, const ProgramUses& uses, MeshIndex mesh)
    : bytes_(program.instructions.size()) {
  const int count = program.instructions.size();
  std::vector<int64_t> change(static_cast<size_t>(count) + 1,
                              0);  // without what is written over
  for (RegisterIndex index : program.registers.indices()) {
    const Register& reg = program.registers[index];
    if (reg.mesh != mesh || reg.storage != Register::Storage::kArena) continue;
    const auto [begin, end] = live_range(program, uses, index);
    bytes_.add(begin, end, reg.size.value());
    const bool is_left_out = !uses.is_live_out(index) && end > begin + 1 &&
                             may_be_written_over(program, InstructionIndex(end - 1), index);
    change[begin] += reg.size.value();
    change[is_left_out ? end - 1 : end] -= reg.size.value();
  }
  int64_t alive = 0;
  for (int i = 0; i < count; ++i) least_peak_ = std::max(least_peak_, alive += change[i]);
}

}  // namespace tessera
