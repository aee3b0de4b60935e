#include "training/verify/internal/windows.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

/// The registers of a piece: those that are compared or rounded, and those of operands.
std::vector<RegisterIndex> registers_of(const ComparedPiece& piece,
                                        const DecisionOperands& decisions) {
  std::vector<RegisterIndex> registers = piece.registers;
  registers.insert(registers.end(), piece.rounded.begin(), piece.rounded.end());
  for (const ValueId operand : piece.operands)
    registers.insert(registers.end(), decisions.registers(operand).begin(),
                     decisions.registers(operand).end());
  return registers;
}

Bytes bytes_on_all_ranks(const Register& reg) {
  Bytes bytes(0);
  for (int position = 0; position < reg.attr.mesh->size(); ++position)
    bytes += byte_size(local_type(reg, reg.attr.mesh->coordinate_at(position)));
  return bytes;
}

}  // namespace

Bytes captured_bytes(const Register& reg) {
  Bytes bytes(0);
  for (int position = 0; position < reg.attr.mesh->size(); ++position) {
    const Coordinate coordinate = reg.attr.mesh->coordinate_at(position);
    bool is_first = true;  // of its replicas: it is at the begin of all axes that replicate
    for (int axis = 0; axis < reg.attr.mesh->axis_count(); ++axis)
      is_first = is_first && (reg.attr.uses(axis) || coordinate[axis] == 0);
    if (is_first) bytes += byte_size(local_type(reg, coordinate));
  }
  return bytes;
}

Bytes bytes_on_all_ranks(const TaskGraph& tasks) {
  Bytes bytes(0);
  for (const TaskVariable& variable : tasks.variables)
    bytes += bytes_on_all_ranks(tasks.registers[variable.value]);
  for (const MeshIndex mesh : tasks.arenas.indices())
    bytes += Bytes(tasks.arenas[mesh].value() * tasks.meshes[mesh]->size());
  return bytes;
}

std::vector<ComparedPiece> compared_pieces(const ReferencePieces& pieces, const Graph& graph,
                                           const TaskGraph& tasks,
                                           const DecisionOperands& decisions) {
  std::vector<ComparedPiece> result;
  std::vector<size_t> piece_of(graph.ops().size());
  for (const ReferencePieces::Piece& piece : pieces.pieces()) {
    std::fill(piece_of.begin() + piece.begin, piece_of.begin() + piece.end, result.size());
    result.push_back({piece, {}, {}, {}});
  }
  const auto at = [&](ValueId value) -> ComparedPiece& {
    return result[piece_of[static_cast<size_t>(pieces.position(value).index)]];
  };
  for (const RegisterIndex index : in_program_order(tasks)) {
    const Register& reg = tasks.registers[index];
    if (is_rounded_partial(reg) && is_narrow_float(reg.type->dtype))
      at(*graph.find_value(name_of_partial(graph, reg))).rounded.push_back(index);
    if (is_partial_of_micro_batches(reg)) continue;  // its sum is compared
    at(*graph.find_value(value_name(graph, reg))).registers.push_back(index);
  }
  for (const ValueId operand : decisions.operands()) at(operand).operands.push_back(operand);
  return result;
}

std::vector<CaptureWindow> capture_windows(const std::vector<ComparedPiece>& pieces,
                                           const DecisionOperands& decisions,
                                           const TaskGraph& tasks, Bytes limit) {
  std::vector<CaptureWindow> windows;
  std::vector<int> window_of(static_cast<size_t>(tasks.registers.size()), -1);
  for (int piece = 0; piece < std::ssize(pieces); ++piece) {
    const std::vector<RegisterIndex> registers = registers_of(pieces[piece], decisions);
    Bytes bytes(0);
    for (const RegisterIndex reg : registers) bytes += captured_bytes(tasks.registers[reg]);
    if (windows.empty() || windows.back().bytes + bytes > limit)
      windows.push_back({piece, piece, {}, Bytes(0)});
    CaptureWindow& window = windows.back();
    window.end = piece + 1;
    for (const RegisterIndex reg : registers) {
      int& known = window_of[static_cast<size_t>(reg.value())];
      const auto mine = static_cast<int>(windows.size());
      if (known == mine) continue;
      known = mine;
      window.registers.push_back(reg);
      window.bytes += captured_bytes(tasks.registers[reg]);
    }
  }
  return windows;
}

}  // namespace tessera
