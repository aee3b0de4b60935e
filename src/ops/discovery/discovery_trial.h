// One trial of discovery: an op on sampled operands, whole and in parts, and whether the parts
// make the whole. For discovery only.
#pragma once

#include <optional>
#include <vector>

#include "ops/discovery/discovery_parts.h"

namespace tessera::detail {

/// Operands of the kind that `number` has: see the source.
std::vector<ReferenceTensor> sample_operands(const OwnedOp& op, uint64_t number);
std::vector<ReferenceTensor> execute(const OwnedOp& op,
                                     const std::vector<ReferenceTensor>& operands);
/// What evaluation in another order may change of each element.
std::vector<ReferenceTensor> tolerances(const OwnedOp& op,
                                        const std::vector<ReferenceTensor>& operands,
                                        std::vector<ReferenceTensor> results);
/// Equal within a tolerance, or both not a number.
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

/// Parts of [0, extent), one after the other; they may be empty.
using Cut = std::vector<Range>;
std::vector<Cut> cuts_of(const Division& division);

/// What a part of an operand is made of: its own units and its halo.
Range window(const Division& division, const Range& part);
/// The op as small as the part; none when its operator refuses it.
std::optional<OwnedOp> op_of_part(const OwnedOp& whole, const Division& division,
                                  const Range& range);
ReferenceTensor operand_of_part(const Division& division, const ReferenceTensor& whole,
                                size_t input, const Range& range);

/// All that might restore a result of this type, the simplest first.
std::vector<DiscoveredResult> possible_restores(const TensorType& type, const Division& division);

/// One result of the whole and of the parts of a cut. LiveRanges no longer than what it is made of.
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
  /// Element i of the result is made of elements around element i of the operand; the result may be
  /// shorter at the end.
  bool overlaps(int dim, size_t part) const;
};

}  // namespace tessera::detail
