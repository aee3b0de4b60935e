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

int LiveBytes::position(Time time) const {
  return static_cast<int>(std::ranges::lower_bound(moments_, time) - moments_.begin());
}

LiveBytes::LiveBytes(const Program& program, const InstanceUses& uses, const LiveRanges& live,
                     MeshIndex mesh, std::vector<Time> moments)
    : moments_(std::move(moments)), bytes_(static_cast<int>(moments_.size())) {
  const RegisterInstances& registers = uses.registers();
  if (uses.order().size() == 0) return;  // inputs that nothing reads, where nothing is computed
  std::vector<int64_t> change(moments_.size() + 1, 0);  // without what is written over
  for (RegisterFormIndex index : program.registers.indices()) {
    const RegisterForm& reg = program.registers[index];
    if (reg.mesh != mesh) continue;
    for (RegisterIndex instance : registers.at(index)) {
      if (!registers.is_in_arena(program, instance) || live.begin[instance] < 0) continue;
      const Time begin(std::max(live.begin[instance] - 1, 0)), end(live.end[instance]);
      const int first = position(begin), last = position(end);
      bytes_.add(first, last, reg.size.value());
      const bool is_left_out = end > begin + 1 && end <= uses.order().end_index() &&
                               may_hold_result(program, uses, Time(end.value() - 1), instance);
      change[first] += reg.size.value();
      change[is_left_out ? last - 1 : last] -= reg.size.value();
    }
  }
  int64_t alive = 0;
  for (size_t i = 0; i < moments_.size(); ++i) min_peak_ = std::max(min_peak_, alive += change[i]);
}

IndexedVector<MeshIndex, LiveBytes> live_bytes(const Program& program, const InstanceUses& uses) {
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
  const LiveRanges live = find_live_ranges(program, uses);
  IndexedVector<MeshIndex, LiveBytes> list;
  for (MeshIndex mesh : program.meshes.indices())
    list.push_back({program, uses, live, mesh, std::move(moments[mesh])});
  return list;
}

}  // namespace tessera
