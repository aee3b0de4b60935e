// One trial of discovery: executes an op on sampled operands, whole and in parts, and checks
// whether the parts make the whole. For discovery only.
#pragma once

#include <optional>
#include <vector>

#include "ir/ops/internal/discovery/discovery_parts.h"

namespace tessera::detail {

/// The operands of sample `number`; the source describes the kinds of samples.
std::vector<ReferenceTensor> sample_operands(const OwnedOp& op, uint64_t number);
std::vector<ReferenceTensor> execute(const OwnedOp& op,
                                     const std::vector<ReferenceTensor>& operands);
/// The largest change of each element under evaluation in another order.
std::vector<ReferenceTensor> tolerances(const OwnedOp& op,
                                        const std::vector<ReferenceTensor>& operands,
                                        std::vector<ReferenceTensor> results);
/// Are the two equal within a tolerance, or both not a number?
bool near(double a, double b, double tolerance);

/// A division of an op.
struct Division {
  std::vector<DiscoveredDim> inputs;
  int64_t extent = 1;
  std::optional<SizeAttribute> attribute;
  bool counts_from_part = false;
  int64_t halo_before = 0, halo_after = 0;

  bool has_halo() const { return halo_before + halo_after > 0; }
};

/// Consecutive parts of [0, extent), which may be empty.
using Cut = std::vector<Range>;
std::vector<Cut> cuts_of(const Division& division);

/// The range of an operand that a part needs: its own units and its halo.
Range window(const Division& division, const Range& part);
/// The op as small as the part; nullopt when its operator refuses it.
std::optional<OwnedOp> op_of_part(const OwnedOp& whole, const Division& division,
                                  const Range& range);
ReferenceTensor operand_of_part(const Division& division, const ReferenceTensor& whole,
                                size_t input, const Range& range);

/// All restorations that are possible for a result of this type, the simplest first.
std::vector<DiscoveredResult> possible_restores(const TensorType& type, const Division& division);

/// One result of the whole and of the parts of a cut. Its arguments outlive it.
struct Results {
  const Division& division;
  const Cut& cut;
  const ReferenceTensor& whole;
  const ReferenceTensor& tolerance;
  std::vector<const ReferenceTensor*> parts;

  bool restored_by(const DiscoveredResult& how) const;

 private:
  bool reduced(ReduceOp reduce) const;
  bool joins(const DiscoveredDim& along, size_t part) const;
  /// Does element i of the result depend on elements around element i of the operand? The result
  /// may be shorter at the end.
  bool overlaps(int dim, size_t part) const;
};

}  // namespace tessera::detail
