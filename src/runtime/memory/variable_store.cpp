#include "runtime/memory/variable_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "ir/graph/initializer.h"
#include "runtime/comm/box_combine.h"

namespace tessera {
namespace {

/// Copies `box` between two tensors that hold boxes of one whole tensor.
void copy_box(DType dtype, const Box& box, std::byte* target, const Box& target_holds,
              const std::byte* source, const Box& source_holds) {
  if (box.empty()) return;
  BoxCombine copy(dtype, ReduceOp::kSum, box, target_holds);
  copy.add_source(0, source_holds);
  copy.join_dims();
  copy.run(target, std::array<const std::byte*, 1>{source});
}

/// A hash that tells whether replicas are equal. It processes eight bytes at a time, in four
/// independent lanes.
uint64_t hash_of(std::span<const std::byte> data) {
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15ULL;
  std::array<uint64_t, 4> lanes{1, 2, 3, 4};
  for (size_t lane = 0; !data.empty(); lane = (lane + 1) % lanes.size()) {
    uint64_t word = 0;
    const size_t taken = std::min(sizeof word, data.size());
    std::memcpy(&word, data.data(), taken);
    data = data.subspan(taken);
    lanes[lane] = std::rotl((lanes[lane] ^ word) * kPrime, 29);
  }
  uint64_t hash = 0;
  for (const uint64_t lane : lanes) hash = (hash ^ lane) * kPrime;
  return hash;
}

bool rests_in_file(const TaskGraph& graph, const Register& reg) {
  return device_of(graph, reg.mesh) == DeviceKind::kFile;
}

}  // namespace

bool is_first_holder(const DistAttr& attr, const Coordinate& coordinate) {
  for (int axis = 0; axis < coordinate.size(); ++axis)
    if (!attr.uses(axis) && coordinate[axis] != 0) return false;
  return true;
}

void VariableStore::check_known(const TaskVariable& variable, const Register& reg,
                                bool is_in_file) const {
  const auto known = variables_.find(variable.name);
  if (known == variables_.end()) return;
  const Variable& old = known->second;
  ensure(old.type == reg.type && old.attr == reg.attr,
         "variable '" + variable.name + "' is " + to_text(old.type, old.attr) +
             " in an earlier program and " + to_text(reg.type, reg.attr) + " in this one");
  ensure(old.is_in_file == is_in_file,
         "variable '" + variable.name + "' is in a file in one program and in memory in another");
}

VariableStore::Variable VariableStore::make(const Register& reg, bool is_in_file) {
  for (const PartialAxis& axis : reg.attr.partial)
    ensure(axis.reduce == ReduceOp::kSum,
           "variable '" + reg.name + "' holds partial values of a sum only");
  Variable made{reg.type, reg.attr, is_in_file, {}, {}, false};
  for (int index = 0; index < rank_count(); ++index) {
    const auto coordinate = coordinate_of(reg.attr, index);
    made.parts.push_back(coordinate && is_here_[index]
                             ? RankPart(local_type(reg, *coordinate), is_in_file ? &file_ : nullptr)
                             : RankPart());
    made.bytes.push_back(coordinate ? byte_size(local_type(reg, *coordinate)) : Bytes(0));
  }
  return made;
}

void VariableStore::add(const TaskGraph& graph) {
  const auto register_of = [&](const TaskVariable& variable) {
    return graph.registers[variable.value];
  };
  for (const TaskVariable& variable : graph.variables)
    check_known(variable, register_of(variable), rests_in_file(graph, register_of(variable)));
  for (const TaskVariable& variable : graph.variables)
    if (const Register reg = register_of(variable); !variables_.contains(variable.name))
      variables_.emplace(variable.name, make(reg, rests_in_file(graph, reg)));
}

Bytes VariableStore::bytes_to_add(const TaskGraph& graph) const {
  Bytes sum(0);
  for (const TaskVariable& variable : graph.variables) {
    if (variables_.contains(variable.name)) continue;
    const Register& reg = graph.registers[variable.value];
    if (rests_in_file(graph, reg)) continue;
    for (int index = 0; index < rank_count(); ++index)
      if (const auto coordinate = coordinate_of(reg.attr, index); coordinate && is_here_[index])
        sum += byte_size(local_type(reg, *coordinate));
  }
  return sum;
}

const VariableStore::Variable& VariableStore::find(const std::string& name) const {
  const auto found = variables_.find(name);
  ensure(found != variables_.end(), "there is no variable '" + name + "'");
  return found->second;
}

VariableStore::Variable& VariableStore::find(const std::string& name) {
  return const_cast<Variable&>(std::as_const(*this).find(name));
}

std::byte* VariableStore::part(const std::string& name, int rank_index) {
  return find(name).parts[rank_index].data();
}

std::vector<Piece> VariableStore::pieces_of(const Variable& variable,
                                            const Coordinate& coordinate) {
  return variable.attr.pieces(variable.type.shape, coordinate);
}

void VariableStore::with_parts_of(int rank_index,
                                  const std::function<void(std::span<const VariablePart>)>& work) {
  /// A box that is not dense where it is: one of several chunks.
  struct Copied {
    Piece piece;
    DType dtype;
    std::byte* part;
    Tensor box;
  };
  std::vector<Copied> copied;
  std::vector<VariablePart> parts;
  for (auto& [name, variable] : variables_) {
    const auto coordinate = coordinate_of(variable.attr, rank_index);
    if (!coordinate) continue;
    const bool is_first = is_first_holder(variable.attr, *coordinate);
    std::byte* part = variable.parts[rank_index].data();
    if (!variable.attr.has_chunks()) {
      parts.push_back({name, variable.type, variable.attr.box(variable.type.shape, *coordinate),
                       is_first, part});
      continue;
    }
    const DType dtype = variable.type.dtype;
    for (const Piece& piece : pieces_of(variable, *coordinate)) {
      Copied& made =
          copied.emplace_back(Copied{piece, dtype, part, Tensor({dtype, piece.box.shape()})});
      copy_box(dtype, piece.box, made.box.data(), piece.box, part, piece.frame);
      parts.push_back({name, variable.type, piece.box, is_first, made.box.data()});
    }
  }
  work(parts);
  for (const Copied& made : copied)
    copy_box(made.dtype, made.piece.box, made.part, made.piece.frame, made.box.data(),
             made.piece.box);
  for (const auto& [name, variable] : variables_) variable.parts[rank_index].release_pages();
}

void VariableStore::initialize(const TaskVariable& variable, uint64_t seed, int rank_index) {
  Variable& stored = find(variable.name);
  RankPart& part = stored.parts[rank_index];
  const auto coordinate = coordinate_of(stored.attr, rank_index);
  if (!coordinate || !is_here_[rank_index]) return;
  // Programs hold the address of the part, so its memory stays.
  for (const Piece& piece : pieces_of(stored, *coordinate)) {
    const Tensor initial =
        initial_value(variable.name, stored.type, variable.initializer, seed, piece.box);
    copy_box(stored.type.dtype, piece.box, part.data(), piece.frame, initial.data(), piece.box);
  }
  part.release_pages();
}

VariableStore::Parts VariableStore::parts_here(const std::string& name) const {
  Parts parts;
  for (const RankPart& part : find(name).parts) parts.push_back(part.bytes());
  return parts;
}

Bytes VariableStore::part_bytes(const std::string& name, int rank_index) const {
  return find(name).bytes[rank_index];
}

std::vector<uint64_t> VariableStore::hashes(int rank_index) const {
  std::vector<uint64_t> all;
  for (const auto& [name, variable] : variables_) {
    const RankPart& part = variable.parts[rank_index];
    all.push_back(part.bytes().empty() ? 0 : hash_of(part.bytes()));
    part.release_pages();
  }
  return all;
}

std::optional<VariableStore::ReplicaMismatch> VariableStore::find_replica_mismatch(
    const std::vector<std::vector<uint64_t>>& hashes) const {
  size_t number = 0;
  for (const auto& [name, variable] : variables_) {
    // The key is the begins of the first box: parts of one variable with the same ones are the
    // same.
    std::map<std::vector<int64_t>, int> first_of;
    for (int index = 0; index < rank_count() && variable.attr.partial.empty(); ++index) {
      const auto coordinate = coordinate_of(variable.attr, index);
      if (!coordinate) continue;
      const std::vector<Piece> pieces = pieces_of(variable, *coordinate);
      if (pieces.empty()) continue;
      std::vector<int64_t> begins;
      for (const Range& range : pieces.front().box.ranges) begins.push_back(range.begin);
      const int first = first_of.emplace(begins, index).first->second;
      if (hashes[first][number] != hashes[index][number])
        return ReplicaMismatch{name, ranks_[first], ranks_[index]};
    }
    ++number;
  }
  return std::nullopt;
}

Tensor VariableStore::sum_of_partials(const Variable& variable, const Parts& parts) const {
  const Box all = whole_box(variable.type.shape);
  Tensor sum(variable.type);
  for (int index = 0; index < rank_count(); ++index) {
    const auto coordinate = coordinate_of(variable.attr, index);
    if (!coordinate || !is_first_holder(variable.attr, *coordinate)) continue;
    for (const Piece& piece : pieces_of(variable, *coordinate)) {
      Tensor before(sum.type());
      std::memcpy(before.data(), sum.data(), byte_size(sum.type()).value());
      BoxCombine add(variable.type.dtype, ReduceOp::kSum, piece.box, all);
      add.add_source(0, all);
      add.add_source(1, piece.frame);
      add.join_dims();
      add.run(sum.data(), std::array<const std::byte*, 2>{before.data(), parts[index].data()});
    }
  }
  return sum;
}

Tensor VariableStore::whole(const std::string& name, const Parts& parts) const {
  const Variable& variable = find(name);
  if (!variable.attr.partial.empty()) return sum_of_partials(variable, parts);
  const Box all = whole_box(variable.type.shape);
  Tensor result(variable.type);
  // first the copies are made, then their replicas are compared
  for (bool copies : {true, false}) {
    for (int index = 0; index < rank_count(); ++index) {
      const auto coordinate = coordinate_of(variable.attr, index);
      if (!coordinate || is_first_holder(variable.attr, *coordinate) != copies) continue;
      const std::span<const std::byte> part = parts[index];
      std::vector<std::byte> first(copies ? 0 : part.size());
      for (const Piece& piece : pieces_of(variable, *coordinate)) {
        if (copies)
          copy_box(variable.type.dtype, piece.box, result.data(), all, part.data(), piece.frame);
        else
          copy_box(variable.type.dtype, piece.box, first.data(), piece.frame, result.data(), all);
      }
      ensure(copies || part.empty() || std::memcmp(first.data(), part.data(), part.size()) == 0,
             "variable '" + name + "': the replica of rank " + std::to_string(ranks_[index]) +
                 " differs from the first");
    }
  }
  return result;
}

void VariableStore::set(const std::string& name, const Tensor& value) {
  Variable& variable = find(name);
  ensure(variable.type == value.type(), "variable '" + name + "' is " + to_text(variable.type) +
                                            " and is given " + to_text(value.type()));
  for (int index = 0; index < rank_count(); ++index) {
    const auto coordinate = coordinate_of(variable.attr, index);
    if (!coordinate || !is_here_[index]) continue;
    RankPart& part = variable.parts[index];
    const bool is_first_partial =
        std::all_of(variable.attr.partial.begin(), variable.attr.partial.end(),
                    [&](const PartialAxis& axis) { return (*coordinate)[axis.axis] == 0; });
    if (!is_first_partial) {
      fill_with_identity(variable.type.dtype, ReduceOp::kSum, part.data(),
                         element_count(part.type().shape));
      continue;
    }
    for (const Piece& piece : pieces_of(variable, *coordinate))
      copy_box(variable.type.dtype, piece.box, part.data(), piece.frame, value.data(),
               whole_box(variable.type.shape));
  }
  variable.is_set = true;
}

std::vector<std::string> VariableStore::names() const {
  std::vector<std::string> result;
  for (const auto& [name, variable] : variables_) result.push_back(name);
  return result;
}

Bytes VariableStore::bytes_of(int rank_index) const {
  Bytes sum{0};
  for (const auto& [name, variable] : variables_) sum += variable.parts[rank_index].memory_bytes();
  return sum;
}

}  // namespace tessera
