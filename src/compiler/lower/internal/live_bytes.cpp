#include "compiler/lower/internal/live_bytes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

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

LiveRange live_range(const RegisterForm& reg, const InstanceUses& uses, RegisterIndex instance) {
  const Time writer = uses.writer(instance), reader = uses.last_reader(instance);
  const bool is_fed_late = writer.is_none() && reg.micro_batch.index >= 0;
  const int begin =
      is_fed_late ? feed_position(uses, instance).value() : std::max(0, writer.value());
  if (uses.is_live_out(instance)) return {begin, uses.order().size()};
  return {begin, std::max(begin, reader.value()) + 1};
}

/// May the kernel at `reader` write its first result over the register?
bool may_be_written_over(const Program& program, const InstanceUses& uses, Time reader,
                         RegisterIndex instance) {
  const InstructionInstance& at = uses.order()[reader];
  const KernelForm* kernel = program.instructions[at.instruction].kernel();
  if (!kernel || kernel->outputs.empty()) return false;
  const RegisterInstances& registers = uses.registers();
  const RegisterIndex written = registers.written(kernel->outputs.front(), at.micro_batch);
  const RegisterForm &operand = program.registers[registers.form_of(instance)],
                     &result = program.registers[kernel->outputs.front()];
  return registers.is_in_arena(program, written) && operand.type == result.type &&
         operand.attr == result.attr && may_write_over(program, uses, reader, instance);
}

}  // namespace

IndexedVector<MeshIndex, std::vector<Time>> moments_of_meshes(const Program& program,
                                                              const InstanceUses& uses) {
  const RegisterInstances& registers = uses.registers();
  IndexedVector<MeshIndex, std::vector<Time>> moments(program.meshes.size());
  for (std::vector<Time>& of_mesh : moments) of_mesh.emplace_back(0);
  for (Time time : uses.order().indices()) {
    const auto [index, micro_batch, pass, issue_after] = uses.order()[time];
    const Instruction& instruction = program.instructions[index];
    const auto note = [&](RegisterIndex instance) {
      std::vector<Time>& of_mesh = moments[program.registers[registers.form_of(instance)].mesh];
      if (of_mesh.back() != time) of_mesh.push_back(time);
    };
    registers.for_each_read(instruction, micro_batch, note);
    registers.for_each_written(instruction, micro_batch, note);
  }
  return moments;
}

int LiveBytes::position(Time time) const {
  return static_cast<int>(std::ranges::lower_bound(moments_, time) - moments_.begin());
}

LiveBytes::LiveBytes(const Program& program, const InstanceUses& uses, MeshIndex mesh,
                     std::vector<Time> moments)
    : moments_(std::move(moments)), bytes_(static_cast<int>(moments_.size())) {
  const RegisterInstances& registers = uses.registers();
  if (uses.order().size() == 0) return;  // inputs that nothing reads, where nothing is computed
  std::vector<int64_t> change(moments_.size() + 1, 0);  // without what is written over
  for (RegisterFormIndex index : program.registers.indices()) {
    const RegisterForm& reg = program.registers[index];
    if (reg.mesh != mesh) continue;
    for (RegisterIndex instance : registers.at(index)) {
      if (!registers.is_in_arena(program, instance)) continue;
      const auto [begin, end] = live_range(reg, uses, instance);
      const int first = position(Time(begin)), last = position(Time(end));
      bytes_.add(first, last, reg.size.value());
      const bool is_left_out = !uses.is_live_out(instance) && end > begin + 1 &&
                               may_be_written_over(program, uses, Time(end - 1), instance);
      change[first] += reg.size.value();
      change[is_left_out ? last - 1 : last] -= reg.size.value();
    }
  }
  int64_t alive = 0;
  for (size_t i = 0; i < moments_.size(); ++i) min_peak_ = std::max(min_peak_, alive += change[i]);
}

}  // namespace tessera
