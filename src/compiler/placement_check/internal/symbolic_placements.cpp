#include "compiler/placement_check/internal/symbolic_placements.h"

#include "compiler/placement_check/internal/refuse.h"
#include "compiler/placement_check/internal/texts.h"

namespace tessera {
namespace {

/// "partial values (sum over tp)" or "no partial values".
std::string partial_values_text(const std::vector<PartialAxis>& partial, const Mesh& mesh) {
  return partial.empty() ? "no partial values"
                         : "partial values (" + partial_text(mesh, partial) + ")";
}

}  // namespace

void SymbolicPlacements::fill(RegisterIndex index, SymbolicPlacement placement) {
  const Register& reg = program_.reg(index);
  const Mesh& mesh = *placement.attr.mesh;
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  const std::vector<PartialAxis> over_ranks = axis.over_ranks(placement.attr.partial),
                                 declared = axis.declared_partial(reg);
  if (over_ranks != declared)
    refuse("'" + reg.name + "' holds " + partial_values_text(over_ranks, mesh) +
           " and is declared to hold " + partial_values_text(declared, mesh));
  check_micro_batch(reg, placement.attr);
  check_chunk(reg, placement.chunk);
  check_type(reg, program_.graph().type(placement.value));
  if (reg.storage == Register::Storage::kVariable) last_in_variable_[reg.variable] = index;
  placements_[index] = std::move(placement);
}

void SymbolicPlacements::fill_from(RegisterIndex source, RegisterIndex target,
                                   SymbolicPlacement placement) {
  DistAttr declared = program_.micro_batch_axis().declared_dims(program_.reg(target));
  declared.partial = placement.attr.partial;
  if (!(declared == placement.attr))
    refuse(program_.quoted(target) + " is declared " + to_text(program_.reg(target).attr) +
           " and is made of " + program_.quoted(source) + ", which is " +
           to_text(program_.reg(source).attr));
  fill(target, std::move(placement));
}

/// Whether a register is declared for one micro-batch exactly when it holds one, and for rows or
/// for partial values as it does.
void SymbolicPlacements::check_micro_batch(const Register& reg, const DistAttr& attr) const {
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  const bool declared = reg.micro_batch.index >= 0,
             declared_partial = declared && reg.micro_batch.dim < 0;
  if (declared == axis.is_used_by(attr) && declared_partial == axis.is_partial_in(attr)) return;
  refuse("'" + reg.name + "' is declared " + (declared ? "for one micro-batch" : "once a step") +
         " and holds " +
         (axis.is_partial_in(attr) ? "partial values of micro-batches that are not all added"
          : axis.is_used_by(attr)  ? "the rows of one micro-batch"
                                   : "what is made once a step"));
}

/// Whether every rank has its part of the chunk, as its part of the whole says.
void SymbolicPlacements::check_chunk(const Register& reg, const Chunk& chunk) {
  if (!(reg.chunk == chunk)) refuse("'" + reg.name + "' is declared another chunk than it holds");
  if (chunk.dim < 0) return;
  const bool exists = chunk.dim < reg.type->shape.size() && chunk.blocks > 0 && chunk.count > 0 &&
                      chunk.index >= 0 && chunk.index < chunk.count;
  if (!exists) refuse("'" + reg.name + "' is declared a chunk that does not exist");
  // Windows, chunks and the unit of a dim that is not divided do not matter.
  const DimSharding& dim = reg.attr.dims[chunk.dim];
  const bool is_divided = !dim.axes.empty();
  if ((is_divided && (!dim.windows.empty() || dim.chunks != 1)) ||
      chunk.blocks % reg.attr.blocks(chunk.dim) != 0 ||
      reg.type->shape[chunk.dim] % (chunk.blocks * (is_divided ? dim.unit : 1)) != 0)
    refuse("'" + reg.name + "' is a chunk of " + std::to_string(chunk.blocks) +
           " blocks, and ranks have other parts: " + to_text(reg.type, reg.attr));
}

/// Whether a register has the type of the value, of one micro-batch of it, or of a chunk.
void SymbolicPlacements::check_type(const Register& reg, const TensorType& whole) const {
  TensorType expected = whole;
  const MicroBatch& part = reg.micro_batch;
  const int64_t count = program_.micro_batch_axis().micro_batches();
  if (part.index >= count)
    refuse("'" + reg.name + "' is declared for a micro-batch that does not exist");
  if (part.index >= 0 && part.dim >= 0) {
    const Range rows = balanced_part(whole.shape[part.dim], count, part.index);
    expected.shape[part.dim] = rows.size();
    if (part.begin != rows.begin)
      refuse("'" + reg.name + "' is declared to begin at row " + std::to_string(part.begin) +
             " and micro-batch " + std::to_string(part.index) + " begins at " +
             std::to_string(rows.begin));
  }
  if (reg.chunk.dim >= 0) expected.shape[reg.chunk.dim] /= reg.chunk.count;
  if (reg.type != expected)
    refuse("'" + reg.name + "' is declared " + to_text(reg.type) + " and represents " +
           to_text(expected));
}

}  // namespace tessera
