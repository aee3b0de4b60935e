// The search: which dims to divide, what a part gives, and what restores the whole.
#include "ops/discovery.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "base/random.h"
#include "base/text.h"
#include "ops/discovery_parts.h"

namespace tessera {
namespace {

using detail::OwnedOp;
using Restore = DiscoveredResult::Restore;

constexpr uint64_t kDraws = 6, kDrawsToConfirm = 3;
constexpr int64_t kLargestWork = 1 << 20;
constexpr int64_t kMostChunks = 8;
constexpr int64_t kMostSingleUnits = 16;
constexpr int64_t kWidestHalo = 4;
constexpr size_t kMostSets = 4096;
constexpr size_t kMostLinearInputs = 10;

// ---- operands ----

/// Three kinds of numbers in turn: of both signs, whole numbers (an op may jump at them, or compare for equality), positive ones. Integers
/// serve as ids too, so they go from one before the first to one after the last of `extent`.
double draw(DType dtype, uint64_t kind, int64_t extent, double uniform) {
  constexpr double kTrue[] = {0.5, 0.125, 0.875};
  switch (dtype) {
    case DType::kF32: return kind == 0 ? 4 * uniform - 2 : kind == 1 ? std::floor(5 * uniform) - 2 : 0.25 + 3.75 * uniform;
    case DType::kI32:
      return kind == 2 ? 1 + std::floor(static_cast<double>(extent) * uniform) : std::floor(static_cast<double>(extent + 2) * uniform) - 1;
    case DType::kBool: return uniform < kTrue[kind] ? 1 : 0;
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

std::vector<ReferenceTensor> draw_operands(const OwnedOp& op, uint64_t number) {
  std::vector<ReferenceTensor> operands;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const RandomStream stream(stable_hash(op.definition->name, i), number);
    ReferenceTensor tensor{op.inputs[i], {}};
    for (int64_t e = 0; e < element_count(op.inputs[i].shape); ++e)
      tensor.values.push_back(draw(op.inputs[i].dtype, number % 3, largest_extent(op), stream.uniform(static_cast<uint64_t>(e))));
    operands.push_back(std::move(tensor));
  }
  return operands;
}

std::vector<ReferenceTensor> execute(const OwnedOp& op, const std::vector<ReferenceTensor>& operands) {
  const OpView view = op.view();
  std::vector<ReferenceTensor> results;
  for (const TensorType& type : op.outputs)
    results.push_back({type, std::vector<double>(static_cast<size_t>(element_count(type.shape)), 0.0)});
  ReferenceCall call{view, {}, results};
  for (const ReferenceTensor& operand : operands) call.inputs.push_back(&operand);
  op.definition->reference(call);
  return results;
}

/// What evaluation in another order may change: the tolerance of f32, whose unit roundoff is 2^-24, for doubles, where it is 2^-53, with
/// room for the few hundred parts that are put together. An error that matters is far above it.
std::vector<ReferenceTensor> tolerances(const OwnedOp& op, const std::vector<ReferenceTensor>& operands,
                                        std::vector<ReferenceTensor> results) {
  std::vector<ReferenceTensor> all = results;
  const OpView view = op.view();
  ReferenceCall call{view, {}, results};
  for (const ReferenceTensor& operand : operands) call.inputs.push_back(&operand);
  for (size_t o = 0; o < all.size(); ++o) {
    all[o].values.assign(all[o].values.size(), 0.0);
    if (!op.definition->tolerance) continue;
    const std::vector<double> given = op.definition->tolerance(call, static_cast<int>(o));
    for (size_t i = 0; i < given.size(); ++i) all[o].values[i] = std::isfinite(given[i]) ? given[i] * 0x1p-20 : 0;
  }
  return all;
}

struct Draw {
  std::vector<ReferenceTensor> operands, results, tolerances;
};

bool near(double a, double b, double tolerance) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance;
}

bool equal(const ReferenceTensor& actual, const ReferenceTensor& expected, const ReferenceTensor& tolerance) {
  if (actual.type != expected.type) return false;
  for (size_t i = 0; i < expected.values.size(); ++i)
    if (!near(actual.values[i], expected.values[i], tolerance.values[i])) return false;
  return true;
}

// ---- one way to divide ----

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

Cut balanced(int64_t extent, int64_t parts) {
  Cut cut;
  for (int64_t i = 0; i < parts; ++i) cut.push_back(balanced_part(extent, parts, i));
  return cut;
}

/// Two parts, three, very uneven ones, single units, and an empty part last: an op that fits nothing has been found out by then.
std::vector<Cut> cuts_of(const Division& division) {
  const int64_t extent = division.extent;
  std::vector<Cut> cuts{balanced(extent, 2)};
  if (extent > 2) cuts.insert(cuts.end(), {{{0, extent - 1}, {extent - 1, extent}}, balanced(extent, 3)});
  if (division.has_halo()) return cuts;
  if (extent > 3 && extent <= kMostSingleUnits) cuts.push_back(balanced(extent, extent));
  cuts.push_back({{0, extent}, {extent, extent}});
  return cuts;
}

/// What a part of an operand is made of: its own units and its halo.
Range window(const Division& division, const Range& part) {
  return {std::max<int64_t>(0, part.begin - division.halo_before), std::min(division.extent, part.end + division.halo_after)};
}

/// The op as small as the part; none when its operator refuses it.
std::optional<OwnedOp> op_of_part(const OwnedOp& whole, const Division& division, const Range& range) {
  OwnedOp part = whole;
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    const DiscoveredDim& along = division.inputs[i];
    if (along.dim >= 0) part.inputs[i].shape[along.dim] = along.chunks * along.unit * range.size();
  }
  if (division.attribute) {
    const int64_t scaled = detail::get(whole.attributes, *division.attribute) * range.size();
    if (scaled % division.extent != 0) return std::nullopt;
    detail::set(part.attributes, *division.attribute, scaled / division.extent);
  }
  if (!detail::infer_outputs(part) || part.outputs.size() != whole.outputs.size()) return std::nullopt;
  return part;
}

ReferenceTensor operand_of_part(const Division& division, const ReferenceTensor& whole, size_t input, const Range& range) {
  ReferenceTensor part = detail::cut(whole, division.inputs[input], division.extent, range);
  if (division.counts_from_part && division.inputs[input].dim < 0 && part.type.dtype == DType::kI32)
    for (double& value : part.values) value -= static_cast<double>(range.begin);
  return part;
}

double combine(ReduceOp reduce, double a, double b) {
  switch (reduce) {
    case ReduceOp::kSum: return a + b;
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMax: return std::isnan(b) || b > a ? b : a;
    case ReduceOp::kMin: return std::isnan(b) || b < a ? b : a;
    case ReduceOp::kAny: return a != 0 || b != 0 ? 1 : 0;
    case ReduceOp::kAll: return a != 0 && b != 0 ? 1 : 0;
  }
  throw InternalError("unknown reduction");
}

/// All that might restore a result, the simplest first.
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
      if (type.shape[d] <= division.extent) all.push_back({Restore::kJoin, {d, 1, 1}, ReduceOp::kSum});
    } else if (type.shape[d] % division.extent == 0) {
      const int64_t units = type.shape[d] / division.extent;
      for (int64_t chunks : detail::divisors_of(units)) all.push_back({Restore::kJoin, {d, units / chunks, chunks}, ReduceOp::kSum});
    }
  }
  return all;
}

/// One result of the whole and of the parts of a cut.
struct Results {
  const Division& division;
  const Cut& cut;
  const ReferenceTensor& whole;
  const ReferenceTensor& tolerance;
  std::vector<const ReferenceTensor*> parts;

  bool restored_by(const DiscoveredResult& how) const {
    switch (how.restore) {
      case Restore::kSame: return std::all_of(parts.begin(), parts.end(), [&](const auto* part) { return equal(*part, whole, tolerance); });
      case Restore::kReduce: return reduced(how.reduce);
      case Restore::kJoin:
        for (size_t i = 0; i < parts.size(); ++i)
          if (!(division.has_halo() ? overlaps(how.along.dim, i) : joins(how.along, i))) return false;
        return true;
    }
    throw InternalError("unknown way to restore");
  }

 private:
  bool reduced(ReduceOp reduce) const {
    ReferenceTensor all = *parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      if (parts[i]->type != whole.type) return false;
      for (size_t e = 0; e < all.values.size(); ++e) all.values[e] = combine(reduce, all.values[e], parts[i]->values[e]);
    }
    return equal(all, whole, tolerance);
  }

  bool joins(const DiscoveredDim& along, size_t part) const {
    Shape shape = whole.type.shape;
    shape[along.dim] = along.chunks * along.unit * cut[part].size();
    return parts[part]->type.shape == shape && equal(*parts[part], detail::cut(whole, along, division.extent, cut[part]),
                                                     detail::cut(tolerance, along, division.extent, cut[part]));
  }

  /// Element i of the result is made of elements around element i of the operand; the result may be shorter at the end.
  bool overlaps(int dim, size_t part) const {
    const Range seen = window(division, cut[part]);
    const int64_t extent = whole.type.shape[dim], made = parts[part]->type.shape[dim];
    Shape shape = whole.type.shape;
    shape[dim] = seen.size() - (division.extent - extent);
    if (parts[part]->type.shape != shape) return false;
    const Range kept{std::min(cut[part].begin, extent), std::min(cut[part].end, extent)};
    if (kept.empty()) return true;
    if (kept.end - seen.begin > made) return false;
    const DiscoveredDim along{dim, 1, 1};
    return equal(detail::cut(*parts[part], along, made, {kept.begin - seen.begin, kept.end - seen.begin}),
                 detail::cut(whole, along, extent, kept), detail::cut(tolerance, along, extent, kept));
  }
};

// ---- the search ----

class Experiment {
 public:
  Experiment(OwnedOp op, uint64_t draws) : op_(std::move(op)) {
    for (uint64_t number = 0; number < draws; ++number) {
      Draw draw{draw_operands(op_, number), {}, {}};
      draw.results = execute(op_, draw.operands);
      draw.tolerances = tolerances(op_, draw.operands, draw.results);
      draws_.push_back(std::move(draw));
    }
  }

  std::vector<DiscoveredFactor> factors() {
    search_plain();
    search_halos();
    search_attributes();
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return place(a) < place(b); });
    return found_;
  }

  /// Is a factor that was found in a smaller op one of this op, too?
  ///   requires  it is cut neither in units nor in chunks
  bool confirms(const DiscoveredFactor& factor) const {
    Division division{factor.inputs, 1, factor.attribute, factor.counts_from_part, factor.halo_before, factor.halo_after};
    for (size_t i = 0; i < factor.inputs.size(); ++i)
      if (factor.inputs[i].dim >= 0) division.extent = op_.inputs[i].shape[factor.inputs[i].dim];
    if (factor.attribute) division.extent = detail::get(op_.attributes, *factor.attribute);
    const std::optional<DiscoveredFactor> here = attempt(division);
    return here && here->outputs == factor.outputs;
  }

  std::vector<std::vector<int>> linear_sets() const {
    std::vector<int> summable;
    for (size_t i = 0; i < op_.inputs.size(); ++i)
      if (op_.inputs[i].dtype != DType::kBool) summable.push_back(static_cast<int>(i));
    const bool adds = std::all_of(op_.outputs.begin(), op_.outputs.end(), [](const auto& type) { return type.dtype != DType::kBool; });
    std::vector<std::vector<int>> sets;
    if (!adds || summable.size() > kMostLinearInputs) return sets;
    std::vector<unsigned> masks((size_t{1} << summable.size()) - 1);
    std::iota(masks.begin(), masks.end(), 1U);
    std::stable_sort(masks.begin(), masks.end(), [](unsigned a, unsigned b) { return std::popcount(a) < std::popcount(b); });
    std::vector<unsigned> found;
    for (unsigned mask : masks) {
      std::vector<int> members;
      for (size_t bit = 0; bit < summable.size(); ++bit)
        if (mask >> bit & 1U) members.push_back(summable[bit]);
      const bool holds_smaller = std::any_of(found.begin(), found.end(), [&](unsigned smaller) { return (mask & smaller) == smaller; });
      if (holds_smaller || !is_linear(members)) continue;
      found.push_back(mask);
      sets.push_back(members);
    }
    return sets;
  }

  /// op(x + y) = op(x) + op(y) on the members, for every two neighbouring draws; the other operands are those of x.
  bool is_linear(const std::vector<int>& members) const {
    for (size_t n = 0; n < draws_.size(); ++n) {
      const Draw& x = draws_[n];
      const Draw& other = draws_[(n + 1) % draws_.size()];
      std::vector<ReferenceTensor> y = x.operands, sum = x.operands;
      for (int member : members) {
        const auto i = static_cast<size_t>(member);
        y[i] = other.operands[i];
        for (size_t e = 0; e < y[i].values.size(); ++e) sum[i].values[e] += y[i].values[e];
      }
      if (!adds_up(x, y, sum)) return false;
    }
    return true;
  }

 private:
  /// Where a factor stands in the text: by its first operand and dim; what no operand has, by its result.
  static std::vector<int> place(const DiscoveredFactor& factor) {
    for (size_t i = 0; i < factor.inputs.size(); ++i)
      if (factor.inputs[i].dim >= 0) return {static_cast<int>(i), factor.inputs[i].dim};
    return {static_cast<int>(factor.inputs.size()), factor.outputs[0].along.dim};
  }

  // Sets of dims that may go together: at most one of each operand, with a common divisor.

  bool is_free(size_t input, int dim) const {
    return op_.inputs[input].shape[dim] > 1 &&
           std::none_of(found_.begin(), found_.end(), [&](const DiscoveredFactor& factor) { return factor.inputs[input].dim == dim; });
  }

  void add_sets(std::vector<int>& dims, int64_t divisor, std::vector<std::vector<int>>& sets) const {
    const size_t input = dims.size();
    if (sets.size() > kMostSets) return;
    if (input == op_.inputs.size()) {
      if (divisor != 0) sets.push_back(dims);
      return;
    }
    for (int d = -1; d < op_.inputs[input].shape.size(); ++d) {
      const int64_t common = d < 0 ? divisor : std::gcd(divisor, op_.inputs[input].shape[d]);
      if (d >= 0 && (common == 1 || !is_free(input, d))) continue;
      dims.push_back(d);
      add_sets(dims, common, sets);
      dims.pop_back();
    }
  }

  /// The smallest sets first.
  std::vector<std::vector<int>> sets_of_dims() const {
    std::vector<std::vector<int>> sets;
    std::vector<int> dims;
    add_sets(dims, 0, sets);
    const auto size = [](const std::vector<int>& set) { return std::count_if(set.begin(), set.end(), [](int d) { return d >= 0; }); };
    std::stable_sort(sets.begin(), sets.end(), [&](const auto& a, const auto& b) { return size(a) < size(b); });
    return sets;
  }

  bool all_free(const std::vector<int>& set) const {
    for (size_t i = 0; i < set.size(); ++i)
      if (set[i] >= 0 && !is_free(i, set[i])) return false;
    return true;
  }

  int64_t common_divisor(const std::vector<int>& set) const {
    int64_t divisor = 0;
    for (size_t i = 0; i < set.size(); ++i)
      if (set[i] >= 0) divisor = std::gcd(divisor, op_.inputs[i].shape[set[i]]);
    return divisor;
  }

  Division divide(const std::vector<int>& set, int64_t extent, int64_t chunks) const {
    Division division;
    division.extent = extent;
    for (size_t i = 0; i < set.size(); ++i)
      division.inputs.push_back(set[i] < 0 ? DiscoveredDim{}
                                           : DiscoveredDim{set[i], op_.inputs[i].shape[set[i]] / extent / chunks, chunks});
    return division;
  }

  // What is tried, in this order: the plain before the special, small units before large ones.

  void search_plain() {
    for (bool counts_from_part : {false, true})
      for (const std::vector<int>& set : sets_of_dims())
        if (all_free(set) && (!counts_from_part || has_integers_outside(set))) search_units(set, counts_from_part);
  }

  bool has_integers_outside(const std::vector<int>& set) const {
    for (size_t i = 0; i < set.size(); ++i)
      if (set[i] < 0 && op_.inputs[i].dtype == DType::kI32) return true;
    return false;
  }

  void search_units(const std::vector<int>& set, bool counts_from_part) {
    const int64_t common = common_divisor(set);
    for (int64_t chunks : detail::divisors_of(common)) {
      if (chunks > kMostChunks) return;
      std::vector<int64_t> extents = detail::divisors_of(common / chunks);
      std::reverse(extents.begin(), extents.end());
      for (int64_t extent : extents) {
        Division division = divide(set, extent, chunks);
        division.counts_from_part = counts_from_part;
        if (extent > 1 && keep(division)) return;
      }
    }
  }

  /// Tries a division as it is, then with each size among the attributes divided as well.
  bool keep(Division division) {
    if (keep_if_restored(division)) return true;
    for (const SizeAttribute& size : detail::size_attributes(op_.attributes)) {
      division.attribute = size;
      if (keep_if_restored(division)) return true;
    }
    return false;
  }

  void search_halos() {
    for (const std::vector<int>& set : sets_of_dims())
      for (int64_t width = 1; width <= kWidestHalo; ++width)
        for (int64_t before = 0; before <= width; ++before) {
          Division division = divide(set, common_divisor(set), 1);
          division.halo_before = before;
          division.halo_after = width - before;
          // In two parts, each must have elements that the other does not see.
          const bool fits = 2 * std::max(before, width - before) + 1 < division.extent;
          const bool plain =
              std::all_of(division.inputs.begin(), division.inputs.end(), [](const DiscoveredDim& dim) { return dim.unit == 1; });
          if (all_free(set) && fits && plain) keep_if_restored(division);
        }
  }

  /// Dims that only results have, such as those of a broadcast: their extents are attributes.
  void search_attributes() {
    for (bool counts_from_part : {false, true})
      for (const SizeAttribute& size : detail::size_attributes(op_.attributes)) {
        const bool taken = std::any_of(found_.begin(), found_.end(), [&](const auto& factor) { return factor.attribute == size; });
        Division division = divide(std::vector<int>(op_.inputs.size(), -1), detail::get(op_.attributes, size), 1);
        division.attribute = size;
        division.counts_from_part = counts_from_part;
        if (!taken) keep_if_restored(division);
      }
  }

  bool keep_if_restored(const Division& division) {
    std::optional<DiscoveredFactor> factor = attempt(division);
    if (factor) found_.push_back(std::move(*factor));
    return factor.has_value();
  }

  std::optional<DiscoveredFactor> attempt(const Division& division) const {
    std::vector<std::vector<DiscoveredResult>> restores;
    for (const TensorType& type : op_.outputs) restores.push_back(possible_restores(type, division));
    for (const Cut& cut : cuts_of(division))
      for (const Draw& draw : draws_)
        if (!narrow(restores, division, cut, draw)) return std::nullopt;
    DiscoveredFactor factor{division.extent,     division.inputs,          {}, division.attribute, division.halo_before,
                            division.halo_after, division.counts_from_part};
    for (const auto& results : restores) factor.outputs.push_back(results.front());
    return is_of_use(factor) ? std::optional(factor) : std::nullopt;
  }

  /// Every result depends on the division, or some does; a dim of no operand must be one of a result.
  static bool is_of_use(const DiscoveredFactor& factor) {
    const bool divides_operands =
        std::any_of(factor.inputs.begin(), factor.inputs.end(), [](const DiscoveredDim& dim) { return dim.dim >= 0; });
    return std::any_of(factor.outputs.begin(), factor.outputs.end(), [&](const DiscoveredResult& result) {
      return result.restore == Restore::kJoin || (divides_operands && result.restore == Restore::kReduce);
    });
  }

  /// Leaves of the ways to restore those that do so for this cut of these operands; false when a result has none left.
  bool narrow(std::vector<std::vector<DiscoveredResult>>& restores, const Division& division, const Cut& cut, const Draw& draw) const {
    std::vector<std::vector<ReferenceTensor>> parts;
    for (const Range& range : cut) {
      std::optional<std::vector<ReferenceTensor>> results = run_part(division, window(division, range), draw);
      if (!results) return false;
      parts.push_back(std::move(*results));
    }
    for (size_t o = 0; o < restores.size(); ++o) {
      Results results{division, cut, draw.results[o], draw.tolerances[o], {}};
      for (const auto& part : parts) results.parts.push_back(&part[o]);
      std::erase_if(restores[o], [&](const DiscoveredResult& how) { return !results.restored_by(how); });
      if (restores[o].empty()) return false;
    }
    return true;
  }

  std::optional<std::vector<ReferenceTensor>> run_part(const Division& division, const Range& range, const Draw& draw) const {
    const std::optional<OwnedOp> part = op_of_part(op_, division, range);
    if (!part) return std::nullopt;
    std::vector<ReferenceTensor> operands;
    for (size_t i = 0; i < op_.inputs.size(); ++i) operands.push_back(operand_of_part(division, draw.operands[i], i, range));
    return execute(*part, operands);
  }

  /// Where all is finite, and somewhere it must be: a division by zero has no sum.
  bool adds_up(const Draw& x, const std::vector<ReferenceTensor>& y, const std::vector<ReferenceTensor>& sum) const {
    const std::vector<ReferenceTensor> of_y = execute(op_, y), of_sum = execute(op_, sum);
    const std::vector<ReferenceTensor> error_y = tolerances(op_, y, of_y), error_sum = tolerances(op_, sum, of_sum);
    bool compared = false;
    for (size_t o = 0; o < of_sum.size(); ++o)
      for (size_t e = 0; e < of_sum[o].values.size(); ++e) {
        const double expected = x.results[o].values[e] + of_y[o].values[e], actual = of_sum[o].values[e];
        if (!std::isfinite(expected) || !std::isfinite(actual)) continue;
        compared = true;
        if (!near(actual, expected, x.tolerances[o].values[e] + error_y[o].values[e] + error_sum[o].values[e])) return false;
      }
    return compared;
  }

  OwnedOp op_;
  std::vector<Draw> draws_;
  std::vector<DiscoveredFactor> found_;
};

// ---- from the small op to the given one ----

std::string reason_not_to_try(const OwnedOp& op) {
  if (!op.definition->reference) return "it has no plain reference";
  int64_t elements = 0;
  for (const auto* types : {&op.inputs, &op.outputs})
    for (const TensorType& type : *types) {
      if (element_count(type.shape) == 0) return "an operand or result is empty, so that anything would seem to restore it";
      elements += element_count(type.shape);
    }
  const double flops = op.definition->work ? op.definition->work(op.view()).flops.value() : 0;
  if (elements > kLargestWork || flops > static_cast<double>(kLargestWork))
    return "it is too large to be tried, and its types do not allow smaller extents";
  return {};
}

/// One dim of an operand of the given op, and what was found of it in the small one.
struct DimPair {
  int64_t given, small;
  DiscoveredDim along;

  bool was_shrunk() const { return given != small; }
};

std::vector<DimPair> dims_of(const DiscoveredFactor& factor, const OwnedOp& given, const OwnedOp& small) {
  std::vector<DimPair> pairs;
  const auto add = [&](const TensorType& type, const TensorType& small_type, const DiscoveredDim& along) {
    if (along.dim >= 0) pairs.push_back({type.shape[along.dim], small_type.shape[along.dim], along});
  };
  for (size_t i = 0; i < factor.inputs.size(); ++i) add(given.inputs[i], small.inputs[i], factor.inputs[i]);
  for (size_t o = 0; o < factor.outputs.size(); ++o) add(given.outputs[o], small.outputs[o], factor.outputs[o].along);
  return pairs;
}

/// Extents that are cut in units or chunks: how these grow, a small extent does not tell.
std::set<int64_t> extents_to_keep(const std::vector<DiscoveredFactor>& factors, const OwnedOp& given, const OwnedOp& small) {
  std::set<int64_t> kept;
  for (const DiscoveredFactor& factor : factors) {
    const std::vector<DimPair> dims = dims_of(factor, given, small);
    const bool plain =
        std::all_of(dims.begin(), dims.end(), [](const DimPair& dim) { return dim.along.unit == 1 && dim.along.chunks == 1; });
    for (const DimPair& dim : dims)
      if (!plain && dim.was_shrunk()) kept.insert(dim.given);
  }
  return kept;
}

/// The op with one of its extents as large as can be afforded, all others small; none when even the smallest cannot.
std::optional<OwnedOp> with_large_extent(const OwnedOp& given, int64_t extent, std::map<int64_t, int64_t> least) {
  for (int64_t large : {extent, int64_t{61}, int64_t{31}, int64_t{17}}) {
    least[extent] = large;
    OwnedOp op = detail::shrink(given, least);
    if (reason_not_to_try(op).empty()) return op;
  }
  return std::nullopt;
}

/// Large extents may hold what small ones do not, such as a dependence on the element a hundred places before: what was found of the small
/// op is tried again on each large extent, and is given that extent.
void confirm(Discovery& discovery, const OwnedOp& given, const OwnedOp& small, const std::map<int64_t, int64_t>& least) {
  std::map<int64_t, std::vector<size_t>> by_extent;
  for (size_t f = 0; f < discovery.factors.size(); ++f)
    for (const DimPair& dim : dims_of(discovery.factors[f], given, small))
      if (dim.was_shrunk()) by_extent[dim.given].push_back(f);
  std::set<size_t> refuted;
  for (const auto& [extent, factors] : by_extent) {
    const std::optional<OwnedOp> large = with_large_extent(given, extent, least);
    const std::optional<Experiment> experiment = large ? std::optional<Experiment>(std::in_place, *large, kDrawsToConfirm) : std::nullopt;
    for (size_t f : factors) {
      discovery.factors[f].extent = extent;
      if (!experiment || !experiment->confirms(discovery.factors[f])) refuted.insert(f);
    }
    std::erase_if(discovery.linear, [&](const std::vector<int>& set) { return !experiment || !experiment->is_linear(set); });
  }
  for (auto f = refuted.rbegin(); f != refuted.rend(); ++f) discovery.factors.erase(discovery.factors.begin() + static_cast<int>(*f));
}

std::string text_of(const DiscoveredDim& along) {
  std::string text = std::to_string(along.dim);
  if (along.unit > 1) text += "*" + std::to_string(along.unit);
  if (along.chunks > 1) text += " in " + std::to_string(along.chunks) + " chunks";
  return text;
}

std::string text_of(const DiscoveredResult& result) {
  switch (result.restore) {
    case Restore::kSame: return "same";
    case Restore::kReduce: return std::string(to_text(result.reduce));
    case Restore::kJoin: return "join(" + text_of(result.along) + ")";
  }
  throw InternalError("unknown way to restore");
}

/// "[1, 2*4]": the factors of the dims of one operand, up to the last that has one.
std::string text_of_operand(const Discovery& discovery, size_t input) {
  std::vector<std::string> dims(static_cast<size_t>(kMaxRank), "0");
  size_t count = 0;
  for (size_t f = 0; f < discovery.factors.size(); ++f) {
    DiscoveredDim along = discovery.factors[f].inputs[input];
    if (along.dim < 0) continue;
    const auto dim = static_cast<size_t>(along.dim);
    along.dim = static_cast<int>(f) + 1;
    dims[dim] = text_of(along);
    count = std::max(count, dim + 1);
  }
  dims.resize(count);
  return "[" + join(dims, ", ") + "]";
}

std::string text_of(const DiscoveredFactor& factor) {
  std::vector<std::string> results;
  for (const DiscoveredResult& result : factor.outputs) results.push_back(text_of(result));
  std::string text = join(results, ", ");
  if (factor.halo_before + factor.halo_after > 0)
    text += " with a halo of " + std::to_string(factor.halo_before) + " before and " + std::to_string(factor.halo_after) + " after";
  if (factor.counts_from_part) text += ", integers counted from the part";
  return text;
}

}  // namespace

std::string to_text(const Discovery& discovery) {
  if (!discovery.nothing_because.empty()) return "not tried: " + discovery.nothing_because;
  std::vector<std::string> operands;
  const size_t inputs = discovery.factors.empty() ? 0 : discovery.factors[0].inputs.size();
  for (size_t i = 0; i < inputs; ++i) operands.push_back(text_of_operand(discovery, i));
  std::string text = "[" + join(operands, ", ") + "]";
  for (size_t f = 0; f < discovery.factors.size(); ++f) text += "; " + std::to_string(f + 1) + ": " + text_of(discovery.factors[f]);
  return text;
}

Discovery discover(const Operator& definition, const OpView& op) {
  const OwnedOp given = detail::own(definition, op);
  std::map<int64_t, int64_t> least;
  for (;;) {
    const OwnedOp small = detail::shrink(given, least);
    if (const std::string reason = reason_not_to_try(small); !reason.empty()) return {{}, {}, reason};
    Experiment experiment(small, kDraws);
    Discovery discovery{experiment.factors(), experiment.linear_sets(), {}};
    const std::set<int64_t> kept = extents_to_keep(discovery.factors, given, small);
    if (kept.empty()) {
      confirm(discovery, given, small, least);
      return discovery;
    }
    for (int64_t extent : kept) least[extent] = extent;
  }
}

}  // namespace tessera
