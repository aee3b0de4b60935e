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

/// The instances at which a register is alive: [begin, end).
struct LiveRange {
  int begin = 0;
  int end = 0;
};

LiveRange live_range(const Register& reg, const InstanceUses& uses, RegisterInstance instance) {
  const Time writer = uses.writer(instance), reader = uses.last_reader(instance);
  const bool is_fed_late = writer.is_none() && reg.micro_batch.index >= 0;
  const int begin =
      is_fed_late ? feed_position(uses, instance).value() : std::max(0, writer.value());
  if (uses.is_live_out(instance)) return {begin, uses.order().size()};
  return {begin, std::max(begin, reader.value()) + 1};
}

/// May the kernel at `reader` write its first result over the register?
bool may_be_written_over(const Program& program, const InstanceUses& uses, Time reader,
                         RegisterInstance instance) {
  const InstructionInstance& at = uses.order()[reader];
  const KernelStep* kernel = program.instructions[at.instruction].kernel();
  if (!kernel || kernel->outputs.empty()) return false;
  const RegisterInstances& registers = uses.registers();
  const RegisterInstance written = registers.written(kernel->outputs.front(), at.micro_batch);
  const Register &operand = program.registers[registers.register_of(instance)],
                 &result = program.registers[kernel->outputs.front()];
  return registers.is_in_arena(program, written) && operand.type == result.type &&
         operand.attr == result.attr && may_write_over(program, uses, reader, instance);
}

}  // namespace

LiveBytes::LiveBytes(const Program& program, const InstanceUses& uses, MeshIndex mesh)
    : bytes_(uses.order().size()) {
  const RegisterInstances& registers = uses.registers();
  const int count = uses.order().size();
  if (count == 0) return;  // inputs that nothing reads, in a program that computes nothing
  std::vector<int64_t> change(static_cast<size_t>(count) + 1,
                              0);  // without what is written over
  for (RegisterIndex index : program.registers.indices()) {
    const Register& reg = program.registers[index];
    if (reg.mesh != mesh) continue;
    for (RegisterInstance instance : registers.of(index)) {
      if (!registers.is_in_arena(program, instance)) continue;
      const auto [begin, end] = live_range(reg, uses, instance);
      bytes_.add(begin, end, reg.size.value());
      const bool is_left_out = !uses.is_live_out(instance) && end > begin + 1 &&
                               may_be_written_over(program, uses, Time(end - 1), instance);
      change[begin] += reg.size.value();
      change[is_left_out ? end - 1 : end] -= reg.size.value();
    }
  }
  int64_t alive = 0;
  for (int i = 0; i < count; ++i) least_peak_ = std::max(least_peak_, alive += change[i]);
}

}  // namespace tessera
