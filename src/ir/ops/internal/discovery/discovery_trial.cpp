#include "ir/ops/internal/discovery/discovery_trial.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "base/tensor/reduce.h"

namespace tessera::detail {

using Restore = DiscoveredResult::Restore;

namespace {

constexpr int64_t kMaxSingleUnits = 16;

/// Three kinds of numbers in turn: of both signs; whole numbers, at which an op may jump or test
/// for equality; positive ones. Integers are also used as ids, so they range from one before the
/// first to one after the last of `extent`.
double sample(DType dtype, uint64_t kind, int64_t extent, double uniform) {
  constexpr double kTrue[] = {0.5, 0.125, 0.875};
  switch (traits(dtype).kind) {
    case NumberKind::kFloat:
      return kind == 0   ? 4 * uniform - 2
             : kind == 1 ? std::floor(5 * uniform) - 2
                         : 0.25 + 3.75 * uniform;
    case NumberKind::kInteger:
      return kind == 2 ? 1 + std::floor(static_cast<double>(extent) * uniform)
                       : std::floor(static_cast<double>(extent + 2) * uniform) - 1;
    case NumberKind::kBool: return uniform < kTrue[kind] ? 1 : 0;
  }
  throw InternalError("unknown element type");
}

int64_t largest_extent(const OwnedOp& op) {
  int64_t largest = 4;
  for (const auto* types : {&op.inputs, &op.outputs})
    for (const TensorType& type : *types)
      for (int64_t extent : type.shape) largest = std::max(largest, extent);
  return largest;
}

Cut balanced(int64_t extent, int64_t parts) {
  Cut cut;
  for (int64_t i = 0; i < parts; ++i) cut.push_back(balanced_part(extent, parts, i));
  return cut;
}

bool equal(const ReferenceTensor& actual, const ReferenceTensor& expected,
           const ReferenceTensor& tolerance) {
  if (actual.type != expected.type) return false;
  for (size_t i = 0; i < expected.values.size(); ++i)
    if (!near(actual.values[i], expected.values[i], tolerance.values[i])) return false;
  return true;
}

}  // namespace

bool near(double a, double b, double tolerance) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance;
}

std::vector<ReferenceTensor> sample_operands(const OwnedOp& op, uint64_t number) {
  std::vector<ReferenceTensor> operands;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const RandomStream stream(stable_hash(op.definition->name, i), number);
    ReferenceTensor tensor{op.inputs[i], {}};
    for (int64_t e = 0; e < element_count(op.inputs[i].shape); ++e)
      tensor.values.push_back(
          sample(op.inputs[i].dtype, number % 3, largest_extent(op), stream.uniform(e)));
    operands.push_back(std::move(tensor));
  }
  return operands;
}

std::vector<ReferenceTensor> execute(const OwnedOp& op,
                                     const std::vector<ReferenceTensor>& operands) {
  const OpView view = op.view();
  std::vector<ReferenceTensor> results;
  for (const TensorType& type : op.outputs)
    results.push_back({type, std::vector<double>(element_count(type.shape), 0.0)});
  ReferenceCall call{view, {}, results};
  for (const ReferenceTensor& operand : operands) call.inputs.push_back(&operand);
  op.definition->reference(call);
  return results;
}

/// The largest change under evaluation in another order. It is the tolerance of f32, whose unit
/// roundoff is 2^-24, scaled to doubles, where it is 2^-53, with a margin for the few hundred parts
/// that are joined. A relevant error is far larger.
std::vector<ReferenceTensor> tolerances(const OwnedOp& op,
                                        const std::vector<ReferenceTensor>& operands,
                                        std::vector<ReferenceTensor> results) {
  std::vector<ReferenceTensor> all = results;
  const OpView view = op.view();
  ReferenceCall call{view, {}, results};
  for (const ReferenceTensor& operand : operands) call.inputs.push_back(&operand);
  for (size_t o = 0; o < all.size(); ++o) {
    all[o].values.assign(all[o].values.size(), 0.0);
    if (!op.definition->tolerance) continue;
    const std::vector<double> given = op.definition->tolerance(call, static_cast<int>(o));
    for (size_t i = 0; i < given.size(); ++i)
      all[o].values[i] = std::isfinite(given[i]) ? given[i] * 0x1p-20 : 0;
  }
  return all;
}

/// Two parts, three, very uneven ones, single units, and an empty part last: an op that fits
/// nothing has been rejected by then.
std::vector<Cut> cuts_of(const Division& division) {
  const int64_t extent = division.extent;
  std::vector<Cut> cuts{balanced(extent, 2)};
  if (extent > 2)
    cuts.insert(cuts.end(), {{{0, extent - 1}, {extent - 1, extent}}, balanced(extent, 3)});
  if (division.has_halo()) return cuts;
  if (extent > 3 && extent <= kMaxSingleUnits) cuts.push_back(balanced(extent, extent));
  cuts.push_back({{0, extent}, {extent, extent}});
  return cuts;
}

Range window(const Division& division, const Range& part) {
  return {std::max<int64_t>(0, part.begin - division.halo_before),
          std::min(division.extent, part.end + division.halo_after)};
}

std::optional<OwnedOp> op_of_part(const OwnedOp& whole, const Division& division,
                                  const Range& range) {
  OwnedOp part = whole;
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    const DiscoveredDim& along = division.inputs[i];
    if (along.dim >= 0) part.inputs[i].shape[along.dim] = along.chunks * along.unit * range.size();
  }
  if (division.attribute) {
    const int64_t scaled = get(whole.attributes, *division.attribute) * range.size();
    if (scaled % division.extent != 0) return std::nullopt;
    set(part.attributes, *division.attribute, scaled / division.extent);
  }
  if (!infer_outputs(part) || part.outputs.size() != whole.outputs.size()) return std::nullopt;
  return part;
}

ReferenceTensor operand_of_part(const Division& division, const ReferenceTensor& whole,
                                size_t input, const Range& range) {
  ReferenceTensor part = cut(whole, division.inputs[input], division.extent, range);
  if (division.counts_from_part && division.inputs[input].dim < 0 && part.type.dtype == DType::kI32)
    for (double& value : part.values) value -= static_cast<double>(range.begin);
  return part;
}

std::vector<DiscoveredResult> possible_restores(const TensorType& type, const Division& division) {
  std::vector<DiscoveredResult> all{{Restore::kSame, {}, ReduceOp::kSum}};
  if (!division.has_halo()) {
    using enum ReduceOp;
    const bool is_bool = type.dtype == DType::kBool;
    for (ReduceOp reduce : is_bool ? std::vector{kAny, kAll} : std::vector{kSum, kMax, kMin, kProd})
      all.push_back({Restore::kReduce, {}, reduce});
  }
  for (int d = 0; d < type.shape.size(); ++d) {
    if (division.has_halo()) {
      if (type.shape[d] <= division.extent)
        all.push_back({Restore::kJoin, {d, 1, 1}, ReduceOp::kSum});
    } else if (type.shape[d] % division.extent == 0) {
      const int64_t units = type.shape[d] / division.extent;
      for (int64_t chunks : divisors_of(units))
        all.push_back({Restore::kJoin, {d, units / chunks, chunks}, ReduceOp::kSum});
    }
  }
  return all;
}

bool Results::restored_by(const DiscoveredResult& how) const {
  switch (how.restore) {
    case Restore::kSame:
      return std::all_of(parts.begin(), parts.end(),
                         [&](const auto* part) { return equal(*part, whole, tolerance); });
    case Restore::kReduce: return reduced(how.reduce);
    case Restore::kJoin:
      for (size_t i = 0; i < parts.size(); ++i)
        if (!(division.has_halo() ? overlaps(how.along.dim, i) : joins(how.along, i))) return false;
      return true;
  }
  throw InternalError("unknown kind of restore");
}

bool Results::reduced(ReduceOp reduce) const {
  for (const ReferenceTensor* part : parts)
    if (part->type != whole.type) return false;
  ReferenceTensor all = *parts[0];
  for (size_t i = 1; i < parts.size(); ++i)
    for (size_t e = 0; e < all.values.size(); ++e)
      all.values[e] = combine(reduce, all.values[e], parts[i]->values[e]);
  return equal(all, whole, tolerance);
}

bool Results::joins(const DiscoveredDim& along, size_t part) const {
  Shape shape = whole.type.shape;
  shape[along.dim] = along.chunks * along.unit * cut[part].size();
  return parts[part]->type.shape == shape &&
         equal(*parts[part], detail::cut(whole, along, division.extent, cut[part]),
               detail::cut(tolerance, along, division.extent, cut[part]));
}

bool Results::overlaps(int dim, size_t part) const {
  const Range seen = window(division, cut[part]);
  const int64_t extent = whole.type.shape[dim], made = parts[part]->type.shape[dim];
  Shape shape = whole.type.shape;
  shape[dim] = seen.size() - (division.extent - extent);
  if (parts[part]->type.shape != shape) return false;
  const Range kept{std::min(cut[part].begin, extent), std::min(cut[part].end, extent)};
  if (kept.empty()) return true;
  if (kept.end - seen.begin > made) return false;
  const DiscoveredDim along{dim, 1, 1};
  return equal(
      detail::cut(*parts[part], along, made, {kept.begin - seen.begin, kept.end - seen.begin}),
      detail::cut(whole, along, extent, kept), detail::cut(tolerance, along, extent, kept));
}

}  // namespace tessera::detail
