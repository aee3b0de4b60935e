#include "training/verify/capture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/tensor/element.h"
#include "ir/graph/derivations.h"
#include "runtime/comm/plain_bytes.h"

namespace tessera {
namespace {

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum: return a + b;
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMax:
    case ReduceOp::kAny: return std::max(a, b);
    case ReduceOp::kMin:
    case ReduceOp::kAll: return std::min(a, b);
  }
  throw InternalError("unknown reduction");
}

double identity(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAny: return 0;
    case ReduceOp::kProd:
    case ReduceOp::kAll: return 1;
    case ReduceOp::kMax: return -std::numeric_limits<double>::infinity();
    case ReduceOp::kMin: return std::numeric_limits<double>::infinity();
  }
  throw InternalError("unknown reduction");
}

Tensor local_tensor(const TensorType& type, const std::vector<std::byte>& bytes) {
  Tensor tensor(type);
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

bool are_neighbours(const std::vector<int64_t>& indices) {
  return indices.back() - indices.front() + 1 == std::ssize(indices) &&
         std::ranges::is_sorted(indices);
}

/// Calls visit(position in the part, position in the whole tensor, count) for runs of elements that
/// are neighbours in both.
template <typename Visit>
void for_each_run(const Shape& local, const std::vector<std::vector<int64_t>>& indices,
                  const Shape& whole, Visit visit) {
  const Dims strides = row_major_strides(whole);
  const int rank = local.size(), last = rank - 1;
  if (rank == 0) return visit(size_t{0}, size_t{0}, size_t{1});
  Shape rows = local;  // of the last dim: one begin of each
  rows[last] = 1;
  Dims row = Dims::filled(rank, 0);
  const size_t run = local[last] > 0 && are_neighbours(indices[last]) ? indices[last].size() : 1;
  size_t from = 0;
  for (int64_t i = 0; i < (local[last] > 0 ? element_count(rows) : 0);
       ++i, advance_index(row, rows)) {
    int64_t begin = 0;
    for (int d = 0; d < last; ++d) begin += indices[d][row[d]] * strides[d];
    for (size_t column = 0; column < indices[last].size(); column += run, from += run)
      visit(from, static_cast<size_t>(begin + indices[last][column]), run);
  }
}

/// Calls visit(position in the part, position in the whole tensor).
template <typename Visit>
void for_each_element(const Shape& local, const std::vector<std::vector<int64_t>>& indices,
                      const Shape& whole, Visit visit) {
  for_each_run(local, indices, whole, [&](size_t from, size_t at, size_t count) {
    for (size_t i = 0; i < count; ++i) visit(from + i, at + i);
  });
}

/// Index over the axes that divide a register or are partial; equal for replicas.
int64_t replica_set(const Register& reg, const Coordinate& coordinate) {
  int64_t index = 0;
  for (int axis = 0; axis < reg.attr.mesh->axis_count(); ++axis)
    if (reg.attr.uses(axis)) index = index * reg.attr.mesh->shape()[axis] + coordinate[axis];
  return index;
}

int64_t first_differing_byte(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

Capture::Capture(const TaskGraph& graph)
    : graph_(graph),
      ranks_(ranks(graph)),
      parts_(ranks_.size()),
      equal_to_(ranks_.size()),
      first_of_replicas_(graph.registers.size()),
      is_selected_(graph.registers.size(), true),
      is_given_(ranks_.size()) {
  for (auto& registers : parts_) registers.resize(graph.registers.size());
  clear();
}

void Capture::release_given(std::span<const RegisterIndex> registers) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!is_given_[rank]) continue;
    for (const RegisterIndex reg : registers) {
      std::vector<std::byte>().swap(parts_[rank][reg]);
      filled_[rank][reg] = false;
    }
  }
}

void Capture::select(std::span<const RegisterIndex> registers) {
  is_selected_ = IndexedVector<RegisterIndex, bool>(graph_.registers.size(), false);
  for (const RegisterIndex reg : registers) is_selected_[reg] = true;
  for (auto& parts : parts_)
    for (const RegisterIndex reg : graph_.registers.indices())
      if (!is_selected_[reg]) std::vector<std::byte>().swap(parts[reg]);
  clear();
}

void Capture::clear() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    equal_to_[rank] = IndexedVector<RegisterIndex, size_t>(graph_.registers.size(), rank);
  for (auto& first : first_of_replicas_) first.clear();
  // There is one list per rank, because two threads must not write into one vector<bool>.
  filled_.assign(parts_.size(), IndexedVector<RegisterIndex, bool>(graph_.registers.size(), false));
}

size_t Capture::index_of(Rank rank) const {
  return static_cast<size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

Observer Capture::observer() {
  return [this](Rank rank, RegisterIndex reg, const Coordinate& coordinate, const std::byte* data) {
    if (!is_selected_[reg]) return;
    const auto size =
        static_cast<size_t>(byte_size(local_type(graph_.registers[reg], coordinate)).value());
    keep(index_of(rank), reg, coordinate, std::span(data, size));
  };
}

void Capture::keep(size_t rank, RegisterIndex reg, const Coordinate& coordinate,
                   std::span<const std::byte> bytes) {
  const int64_t set = replica_set(graph_.registers[reg], coordinate);
  const std::lock_guard lock(mutexes_[static_cast<size_t>(reg.value()) % mutexes_.size()]);
  filled_[rank][reg] = true;
  auto& firsts = first_of_replicas_[reg];
  const auto first = std::ranges::find(firsts, set, &std::pair<int64_t, size_t>::first);
  if (first != firsts.end() && std::ranges::equal(parts_[first->second][reg], bytes)) {
    equal_to_[rank][reg] = first->second;
    std::vector<std::byte>().swap(parts_[rank][reg]);
    return;
  }
  if (first == firsts.end()) firsts.emplace_back(set, rank);
  parts_[rank][reg].assign(bytes.begin(), bytes.end());
}

std::vector<std::byte> Capture::parts_of(std::span<const RegisterIndex> registers) const {
  std::vector<std::byte> bytes;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    for (const RegisterIndex reg : registers) {
      if (!filled_[rank][reg]) continue;
      const std::vector<std::byte>& part = bytes_of(rank, reg);
      put(bytes, rank);
      put(bytes, reg);
      put(bytes, part.size());
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
  return bytes;
}

void Capture::add(std::span<const std::byte> parts) {
  PlainReader reader(parts);
  while (!reader.is_at_end()) {
    const auto rank = reader.value<size_t>();
    const auto reg = reader.value<RegisterIndex>();
    const std::span<const std::byte> part = reader.bytes(reader.value<size_t>());
    ensure(rank < ranks_.size() && reg.value() < std::ssize(graph_.registers),
           "all processes compile the same task graph");
    is_given_[rank] = true;
    keep(rank, reg, *graph_.registers[reg].attr.mesh->coordinate_of(ranks_[rank]), part);
  }
}

Capture::Part Capture::part_of(const Register& reg, int position) {
  const Mesh& mesh = *reg.attr.mesh;
  Part part;
  part.coordinate = mesh.coordinate_at(position);
  part.indices = reg.attr.indices(reg.type->shape, part.coordinate);
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    if (reg.attr.is_partial_on(axis))
      part.partial = part.partial * mesh.shape()[axis] + part.coordinate[axis];
  part.replica_set = replica_set(reg, part.coordinate);
  return part;
}

Capture::Whole::ReplicaMismatch Capture::find_mismatch(const Register& reg, const Part& part,
                                                       Rank first, Rank second, int64_t byte) {
  Whole::ReplicaMismatch mismatch{first, second, byte / size_of(reg.type->dtype), 0};
  for_each_element(local_type(reg, part.coordinate).shape, part.indices, reg.type->shape,
                   [&](size_t from, size_t at) {
                     if (static_cast<int64_t>(from) == mismatch.local_element) mismatch.at = at;
                   });
  return mismatch;
}

void Capture::place(const TensorType& local, std::span<const std::byte> bytes, const Part& part,
                    ReferenceTensor& whole) {
  visit_element(local.dtype, [&]<typename E>(E) {
    for_each_run(
        local.shape, part.indices, whole.type.shape, [&](size_t from, size_t at, size_t count) {
          for (size_t i = 0; i < count; ++i) {
            typename E::Stored element;
            std::memcpy(&element, bytes.data() + (from + i) * sizeof element, sizeof element);
            whole.values[at + i] = E::to_number(element);
          }
        });
  });
}

Capture::Whole Capture::assemble(RegisterIndex number) const {
  const Register& reg = graph_.registers[number];
  const bool partial = !reg.attr.partial.empty();
  const ReduceOp op = partial ? reg.attr.partial.front().reduce : ReduceOp::kSum;
  Whole whole;
  whole.tensor = {reg.type, std::vector<double>(static_cast<size_t>(element_count(reg.type->shape)),
                                                identity(op))};
  // Each element has one holder, and none is a sum.
  const bool is_plain = !partial && !reg.attr.has_windows() && !is_partial_of_micro_batches(reg);
  if (!is_plain) whole.held.assign(whole.tensor.values.size(), false);
  std::vector<double> magnitudes(is_plain ? 0 : whole.tensor.values.size(), 0.0);
  // Parts with windows overlap, so each partial value of an element counts once.
  std::map<int64_t, std::vector<std::optional<double>>> partials;
  // Axes that only replicate do not count: the first rank of each set of replicas gives its part,
  // and the others must equal it.
  std::map<int64_t, Rank> first_of_replicas;
  for (int position = 0; position < reg.attr.mesh->size(); ++position) {
    const Part part = part_of(reg, position);
    const Rank rank = reg.attr.mesh->rank_at(part.coordinate);
    if (!filled_[index_of(rank)][number]) {
      whole.missing = "rank " + std::to_string(rank) + " never filled it";
      return whole;
    }
    const std::vector<std::byte>& bytes = bytes_of(index_of(rank), number);
    const auto [found, is_first] = first_of_replicas.try_emplace(part.replica_set, rank);
    if (!is_first) {
      const std::vector<std::byte>& other = bytes_of(index_of(found->second), number);
      if (bytes != other && !whole.mismatch)
        whole.mismatch =
            find_mismatch(reg, part, found->second, rank, first_differing_byte(bytes, other));
      continue;
    }
    const TensorType type = local_type(reg, part.coordinate);
    if (is_plain) {
      place(type, bytes, part, whole.tensor);
      continue;
    }
    const ReferenceTensor local = to_reference(local_tensor(type, bytes));
    auto& elements = partials[part.partial];
    elements.resize(reg.attr.has_windows() ? whole.tensor.values.size() : 0);
    for_each_element(type.shape, part.indices, reg.type->shape, [&](size_t from, size_t at) {
      whole.held[at] = true;
      if (!elements.empty() && elements[at]) {
        const bool equal = *elements[at] == local.values[from] ||
                           (std::isnan(*elements[at]) && std::isnan(local.values[from]));
        if (!equal) whole.copies.push_back({at, local.values[from]});
        return;
      }
      if (!elements.empty()) elements[at] = local.values[from];
      double& element = whole.tensor.values[at];
      element = partial ? combine(op, element, local.values[from]) : local.values[from];
      magnitudes[at] += std::abs(local.values[from]);
    });
  }
  if (!magnitudes.empty())
    whole.magnitude = *std::max_element(magnitudes.begin(), magnitudes.end());
  return whole;
}

std::string to_text(const Capture::Whole::ReplicaMismatch& mismatch) {
  return "ranks " + std::to_string(mismatch.first) + " and " + std::to_string(mismatch.second) +
         " differ in local element " + std::to_string(mismatch.local_element);
}

std::vector<RegisterIndex> in_program_order(const TaskGraph& tasks) {
  std::vector<RegisterIndex> order;
  for (TaskId id : tasks.order) {
    const Task& task = tasks.tasks[id];
    if (task.kind == Task::Kind::kCompute)
      for (const KernelStep& step : task.steps)
        order.insert(order.end(), step.outputs.begin(), step.outputs.end());
    else
      order.insert(order.end(), task.outputs.begin(), task.outputs.end());
  }
  return order;
}

std::vector<std::span<const RegisterIndex>> in_groups(std::span<const RegisterIndex> registers,
                                                      const TaskGraph& graph, Bytes limit) {
  std::vector<std::span<const RegisterIndex>> groups;
  size_t begin = 0;
  Bytes all(0);
  for (size_t i = 0; i < registers.size(); ++i) {
    const Register& reg = graph.registers[registers[i]];
    Bytes bytes(0);
    for (int position = 0; position < reg.attr.mesh->size(); ++position)
      bytes += byte_size(local_type(reg, reg.attr.mesh->coordinate_at(position)));
    if (i > begin && all + bytes > limit) {
      groups.push_back(registers.subspan(begin, i - begin));
      begin = i;
      all = Bytes(0);
    }
    all += bytes;
  }
  if (begin < registers.size()) groups.push_back(registers.subspan(begin));
  return groups;
}

bool is_partial_of_micro_batches(const Register& reg) {
  return reg.micro_batch.index >= 0 && reg.micro_batch.dim < 0;
}

bool is_rounded_partial(const Register& reg) {
  if (!is_float(reg.type->dtype)) return false;
  return is_partial_of_micro_batches(reg) ||
         std::ranges::any_of(reg.attr.partial, [](const PartialAxis& partial) {
           return partial.reduce == ReduceOp::kSum || partial.reduce == ReduceOp::kProd;
         });
}

double rounding_of_partials(const Register& reg, const Capture::Whole& whole) {
  double terms = 1;
  for (const PartialAxis& partial : reg.attr.partial)
    terms *= static_cast<double>(reg.attr.mesh->shape()[partial.axis]);
  return std::isfinite(whole.magnitude)
             ? (terms + 1) * unit_roundoff(reg.type->dtype) * whole.magnitude
             : 0;
}

std::string name_of_partial(const Graph& graph, const Register& reg) {
  constexpr std::string_view kSum = ".sum";
  const std::string name = reg.name.text().substr(0, reg.name.text().find(' '));
  return graph.find_value(name) || !name.ends_with(kSum)
             ? value_name(graph, reg)
             : name.substr(0, name.size() - kSum.size());
}

namespace {

/// Of index `i` of dim `dim` of a chunk the index in the tensor, or in its micro-batch, that is
/// cut.
int64_t index_in_tensor(const Register& reg, int dim, int64_t i) {
  const Chunk& chunk = reg.chunk;
  if (chunk.dim != dim) return i;
  const int64_t part = reg.type->shape[dim] / chunk.blocks;
  return (i / part * chunk.count + chunk.index) * part + i % part;
}

}  // namespace

bool is_part(const Register& reg) {
  return reg.micro_batch.dim >= 0 || reg.chunk.dim >= 0;
}

std::vector<size_t> positions_of(const Register& reg, const Shape& whole) {
  std::vector<size_t> positions(static_cast<size_t>(element_count(reg.type->shape)));
  if (!is_part(reg)) {
    std::iota(positions.begin(), positions.end(), size_t{0});
    return positions;
  }
  const Dims strides = row_major_strides(whole), part_strides = row_major_strides(reg.type->shape);
  for (int64_t i = 0; i < std::ssize(positions); ++i) {
    int64_t at = reg.micro_batch.dim < 0 ? 0 : reg.micro_batch.begin * strides[reg.micro_batch.dim];
    for (int d = 0; d < reg.type->shape.size(); ++d)
      at += index_in_tensor(reg, d, i / part_strides[d] % reg.type->shape[d]) * strides[d];
    positions[i] = static_cast<size_t>(at);
  }
  return positions;
}

ReferenceTensor rows_of(const ReferenceTensor& whole, const Register& reg) {
  if (!is_part(reg)) return whole;
  ReferenceTensor part{reg.type, {}};
  for (const size_t at : positions_of(reg, whole.type.shape))
    part.values.push_back(whole.values[at]);
  return part;
}

std::string value_name(const Graph& graph, const Register& reg) {
  std::string name = reg.name.text().substr(0, reg.name.text().find(' '));
  if (!graph.find_value(name)) name = first_computation(name);
  ensure(graph.find_value(name).has_value(),
         [&] { return "register '" + reg.name + "' holds a value of the graph"; });
  return name;
}

}  // namespace tessera
