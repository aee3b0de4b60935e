// The search: the dims that are divided, their order, and the findings that hold on large extents.
#include "ir/ops/discovery/discovery.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "ir/ops/internal/discovery/discovery_trial.h"

namespace tessera {
namespace {

using namespace detail;
using Restore = DiscoveredResult::Restore;

constexpr uint64_t kDraws = 6, kDrawsToConfirm = 3;
constexpr int64_t kLargestWork = 1 << 20;
constexpr int64_t kMaxChunks = 8;
constexpr int64_t kWidestHalo = 4;
constexpr size_t kMaxSets = 4096;
constexpr size_t kMaxLinearInputs = 10;

/// Operands, and the results of the whole op on them.
struct Sample {
  std::vector<ReferenceTensor> operands, results, tolerances;
};

class Experiment {
 public:
  Experiment(OwnedOp op, uint64_t samples) : op_(std::move(op)) {
    for (uint64_t number = 0; number < samples; ++number) {
      Sample sample{sample_operands(op_, number), {}, {}};
      sample.results = execute(op_, sample.operands);
      sample.tolerances = tolerances(op_, sample.operands, sample.results);
      samples_.push_back(std::move(sample));
    }
  }

  std::vector<DiscoveredFactor> factors() {
    search_plain();
    search_halos();
    search_attributes();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return place(a) < place(b); });
    return found_;
  }

  /// Is a factor that was found in a smaller op also one of this op?
  ///   requires  it is cut neither in units nor in chunks
  bool confirms(const DiscoveredFactor& factor) const {
    Division division{factor.inputs,      1,
                      factor.attribute,   factor.counts_from_part,
                      factor.halo_before, factor.halo_after};
    for (size_t i = 0; i < factor.inputs.size(); ++i)
      if (factor.inputs[i].dim >= 0) division.extent = op_.inputs[i].shape[factor.inputs[i].dim];
    if (factor.attribute) division.extent = get(op_.attributes, *factor.attribute);
    const std::optional<DiscoveredFactor> here = attempt(division);
    return here && here->outputs == factor.outputs;
  }

  std::vector<std::vector<int>> linear_sets() const {
    std::vector<int> summable;
    for (size_t i = 0; i < op_.inputs.size(); ++i)
      if (op_.inputs[i].dtype != DType::kBool) summable.push_back(static_cast<int>(i));
    const bool adds = std::all_of(op_.outputs.begin(), op_.outputs.end(),
                                  [](const auto& type) { return type.dtype != DType::kBool; });
    std::vector<std::vector<int>> sets;
    if (!adds || summable.size() > kMaxLinearInputs) return sets;
    std::vector<unsigned> masks((size_t{1} << summable.size()) - 1);
    std::iota(masks.begin(), masks.end(), 1U);
    std::stable_sort(masks.begin(), masks.end(),
                     [](unsigned a, unsigned b) { return std::popcount(a) < std::popcount(b); });
    std::vector<unsigned> found;
    for (unsigned mask : masks) {
      std::vector<int> inputs;
      for (size_t bit = 0; bit < summable.size(); ++bit)
        if (mask >> bit & 1U) inputs.push_back(summable[bit]);
      const bool holds_smaller = std::any_of(found.begin(), found.end(), [&](unsigned smaller) {
        return (mask & smaller) == smaller;
      });
      if (holds_smaller || !is_linear(inputs)) continue;
      found.push_back(mask);
      sets.push_back(inputs);
    }
    return sets;
  }

  /// Is op(x + y) = op(x) + op(y) for these inputs, for every two neighbouring samples? The other
  /// operands are those of x.
  bool is_linear(const std::vector<int>& inputs) const {
    for (size_t n = 0; n < samples_.size(); ++n) {
      const Sample& x = samples_[n];
      const Sample& other = samples_[(n + 1) % samples_.size()];
      std::vector<ReferenceTensor> y = x.operands, sum = x.operands;
      for (int member : inputs) {
        const size_t i = member;
        y[i] = other.operands[i];
        for (size_t e = 0; e < y[i].values.size(); ++e) sum[i].values[e] += y[i].values[e];
      }
      if (!adds_up(x, y, sum)) return false;
    }
    return true;
  }

 private:
  /// The order of factors in the text: by their first operand and dim. A factor of no operand is
  /// ordered by its result.
  static std::vector<int> place(const DiscoveredFactor& factor) {
    for (size_t i = 0; i < factor.inputs.size(); ++i)
      if (factor.inputs[i].dim >= 0) return {static_cast<int>(i), factor.inputs[i].dim};
    return {static_cast<int>(factor.inputs.size()), factor.outputs[0].along.dim};
  }

  // Sets of dims that may be divided together: at most one of each operand, with a common divisor.

  bool is_free(size_t input, int dim) const {
    return op_.inputs[input].shape[dim] > 1 &&
           std::none_of(found_.begin(), found_.end(), [&](const DiscoveredFactor& factor) {
             return factor.inputs[input].dim == dim;
           });
  }

  void add_sets(std::vector<int>& dims, int64_t divisor,
                std::vector<std::vector<int>>& sets) const {
    const size_t input = dims.size();
    if (sets.size() > kMaxSets) return;
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

  /// All sets, the smallest first.
  std::vector<std::vector<int>> sets_of_dims() const {
    std::vector<std::vector<int>> sets;
    std::vector<int> dims;
    add_sets(dims, 0, sets);
    const auto size = [](const std::vector<int>& set) {
      return std::count_if(set.begin(), set.end(), [](int d) { return d >= 0; });
    };
    std::stable_sort(sets.begin(), sets.end(),
                     [&](const auto& a, const auto& b) { return size(a) < size(b); });
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
      division.inputs.push_back(
          set[i] < 0
              ? DiscoveredDim{}
              : DiscoveredDim{set[i], op_.inputs[i].shape[set[i]] / extent / chunks, chunks});
    return division;
  }

  // The divisions that are tried, in this order: plain ones before special ones, small units before
  // large ones.

  void search_plain() {
    for (bool counts_from_part : {false, true})
      for (const std::vector<int>& set : sets_of_dims())
        if (all_free(set) && (!counts_from_part || has_integers_outside(set)))
          search_units(set, counts_from_part);
  }

  bool has_integers_outside(const std::vector<int>& set) const {
    for (size_t i = 0; i < set.size(); ++i)
      if (set[i] < 0 && op_.inputs[i].dtype == DType::kI32) return true;
    return false;
  }

  void search_units(const std::vector<int>& set, bool counts_from_part) {
    const int64_t common = common_divisor(set);
    for (int64_t chunks : divisors_of(common)) {
      if (chunks > kMaxChunks) return;
      std::vector<int64_t> extents = divisors_of(common / chunks);
      std::reverse(extents.begin(), extents.end());
      for (int64_t extent : extents) {
        Division division = divide(set, extent, chunks);
        division.counts_from_part = counts_from_part;
        if (extent > 1 && keep(division)) return;
      }
    }
  }

  /// Tries a division alone, then with each size among the attributes divided too.
  bool keep(Division division) {
    if (keep_if_restored(division)) return true;
    for (const SizeAttribute& size : size_attributes(op_.attributes)) {
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
          // In two parts, each must have elements that the other does not read.
          const bool fits = 2 * std::max(before, width - before) + 1 < division.extent;
          const bool plain = std::all_of(division.inputs.begin(), division.inputs.end(),
                                         [](const DiscoveredDim& dim) { return dim.unit == 1; });
          if (all_free(set) && fits && plain) keep_if_restored(division);
        }
  }

  /// Searches dims that only results have, such as those of a broadcast. Their extents are
  /// attributes.
  void search_attributes() {
    for (bool counts_from_part : {false, true})
      for (const SizeAttribute& size : size_attributes(op_.attributes)) {
        const bool taken = std::any_of(found_.begin(), found_.end(), [&](const auto& factor) {
          return factor.attribute == size;
        });
        Division division =
            divide(std::vector<int>(op_.inputs.size(), -1), get(op_.attributes, size), 1);
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
    for (const TensorType& type : op_.outputs)
      restores.push_back(possible_restores(type, division));
    for (const Cut& cut : cuts_of(division))
      for (const Sample& sample : samples_)
        if (!narrow(restores, division, cut, sample)) return std::nullopt;
    DiscoveredFactor factor{division.extent,          division.inputs,      {},
                            division.attribute,       division.halo_before, division.halo_after,
                            division.counts_from_part};
    for (const auto& results : restores) factor.outputs.push_back(results.front());
    return is_of_use(factor) ? std::optional(factor) : std::nullopt;
  }

  /// Every result, or at least one, depends on the division. A dim of no operand must be a dim of a
  /// result.
  static bool is_of_use(const DiscoveredFactor& factor) {
    const bool divides_operands =
        std::any_of(factor.inputs.begin(), factor.inputs.end(),
                    [](const DiscoveredDim& dim) { return dim.dim >= 0; });
    return std::any_of(factor.outputs.begin(), factor.outputs.end(),
                       [&](const DiscoveredResult& result) {
                         return result.restore == Restore::kJoin ||
                                (divides_operands && result.restore == Restore::kReduce);
                       });
  }

  /// Keeps the candidates that restore the result for this cut of these operands. Returns false
  /// when a result has none left.
  bool narrow(std::vector<std::vector<DiscoveredResult>>& restores, const Division& division,
              const Cut& cut, const Sample& sample) const {
    std::vector<std::vector<ReferenceTensor>> parts;
    for (const Range& range : cut) {
      std::optional<std::vector<ReferenceTensor>> results =
          run_part(division, window(division, range), sample);
      if (!results) return false;
      parts.push_back(std::move(*results));
    }
    for (size_t o = 0; o < restores.size(); ++o) {
      Results results{division, cut, sample.results[o], sample.tolerances[o], {}};
      for (const auto& part : parts) results.parts.push_back(&part[o]);
      std::erase_if(restores[o],
                    [&](const DiscoveredResult& how) { return !results.restored_by(how); });
      if (restores[o].empty()) return false;
    }
    return true;
  }

  std::optional<std::vector<ReferenceTensor>> run_part(const Division& division, const Range& range,
                                                       const Sample& sample) const {
    const std::optional<OwnedOp> part = op_of_part(op_, division, range);
    if (!part) return std::nullopt;
    std::vector<ReferenceTensor> operands;
    for (size_t i = 0; i < op_.inputs.size(); ++i)
      operands.push_back(operand_of_part(division, sample.operands[i], i, range));
    return execute(*part, operands);
  }

  /// The sum is compared where all terms are finite, which must be somewhere: a division by zero
  /// has no sum.
  bool adds_up(const Sample& x, const std::vector<ReferenceTensor>& y,
               const std::vector<ReferenceTensor>& sum) const {
    const std::vector<ReferenceTensor> of_y = execute(op_, y), of_sum = execute(op_, sum);
    const std::vector<ReferenceTensor> error_y = tolerances(op_, y, of_y),
                                       error_sum = tolerances(op_, sum, of_sum);
    bool compared = false;
    for (size_t o = 0; o < of_sum.size(); ++o)
      for (size_t e = 0; e < of_sum[o].values.size(); ++e) {
        const double expected = x.results[o].values[e] + of_y[o].values[e],
                     actual = of_sum[o].values[e];
        if (!std::isfinite(expected) || !std::isfinite(actual)) continue;
        compared = true;
        if (!near(actual, expected,
                  x.tolerances[o].values[e] + error_y[o].values[e] + error_sum[o].values[e]))
          return false;
      }
    return compared;
  }

  OwnedOp op_;
  std::vector<Sample> samples_;
  std::vector<DiscoveredFactor> found_;
};

// ---- from the small op to the given one ----

std::string reason_not_to_try(const OwnedOp& op) {
  if (!op.definition->reference) return "it has no plain reference";
  int64_t elements = 0;
  for (const auto* types : {&op.inputs, &op.outputs})
    for (const TensorType& type : *types) {
      if (element_count(type.shape) == 0)
        return "an operand or result is empty, so that anything would seem to restore it";
      elements += element_count(type.shape);
    }
  const double flops = op.definition->work ? op.definition->work(op.view()).flops.value() : 0;
  if (elements > kLargestWork || flops > static_cast<double>(kLargestWork))
    return "it is too large to be tried, and its types do not allow smaller extents";
  return {};
}

/// One dim of an operand of the given op, and the finding for it in the small op.
struct DimPair {
  int64_t given, small;
  DiscoveredDim along;

  bool was_shrunk() const { return given != small; }
};

std::vector<DimPair> dims_of(const DiscoveredFactor& factor, const OwnedOp& given,
                             const OwnedOp& small) {
  std::vector<DimPair> pairs;
  const auto add = [&](const TensorType& type, const TensorType& small_type,
                       const DiscoveredDim& along) {
    if (along.dim >= 0)
      pairs.push_back({type.shape[along.dim], small_type.shape[along.dim], along});
  };
  for (size_t i = 0; i < factor.inputs.size(); ++i)
    add(given.inputs[i], small.inputs[i], factor.inputs[i]);
  for (size_t o = 0; o < factor.outputs.size(); ++o)
    add(given.outputs[o], small.outputs[o], factor.outputs[o].along);
  return pairs;
}

/// The extents that are cut in units or chunks. A small extent does not tell how these grow.
std::set<int64_t> extents_to_keep(const std::vector<DiscoveredFactor>& factors,
                                  const OwnedOp& given, const OwnedOp& small) {
  std::set<int64_t> kept;
  for (const DiscoveredFactor& factor : factors) {
    const std::vector<DimPair> dims = dims_of(factor, given, small);
    const bool plain = std::all_of(dims.begin(), dims.end(), [](const DimPair& dim) {
      return dim.along.unit == 1 && dim.along.chunks == 1;
    });
    for (const DimPair& dim : dims)
      if (!plain && dim.was_shrunk()) kept.insert(dim.given);
  }
  return kept;
}

/// The op with one of its extents as large as affordable and all others small; nullopt when even
/// the smallest is too large.
std::optional<OwnedOp> with_large_extent(const OwnedOp& given, int64_t extent,
                                         std::map<int64_t, int64_t> smallest) {
  for (int64_t large : {extent, int64_t{61}, int64_t{31}, int64_t{17}}) {
    smallest[extent] = large;
    OwnedOp op = shrink(given, smallest);
    if (reason_not_to_try(op).empty()) return op;
  }
  return std::nullopt;
}

/// Confirms the findings on large extents. These may have properties that small ones do not have,
/// such as a dependence on the element a hundred positions before. So the findings of the small op
/// are tried again on each large extent, and get that extent.
void confirm(Discovery& discovery, const OwnedOp& given, const OwnedOp& small,
             const std::map<int64_t, int64_t>& smallest) {
  std::map<int64_t, std::vector<size_t>> by_extent;
  for (size_t f = 0; f < discovery.factors.size(); ++f)
    for (const DimPair& dim : dims_of(discovery.factors[f], given, small))
      if (dim.was_shrunk()) by_extent[dim.given].push_back(f);
  std::set<size_t> refuted;
  for (const auto& [extent, factors] : by_extent) {
    const std::optional<OwnedOp> large = with_large_extent(given, extent, smallest);
    const std::optional<Experiment> experiment =
        large ? std::optional<Experiment>(std::in_place, *large, kDrawsToConfirm) : std::nullopt;
    for (size_t f : factors) {
      discovery.factors[f].extent = extent;
      if (!experiment || !experiment->confirms(discovery.factors[f])) refuted.insert(f);
    }
    std::erase_if(discovery.linear, [&](const std::vector<int>& set) {
      return !experiment || !experiment->is_linear(set);
    });
  }
  for (auto f = refuted.rbegin(); f != refuted.rend(); ++f)
    discovery.factors.erase(discovery.factors.begin() + static_cast<int>(*f));
}

}  // namespace

Discovery discover(const Operator& definition, const OpView& op) {
  const OwnedOp given = own(definition, op);
  std::map<int64_t, int64_t> smallest;
  for (;;) {
    const OwnedOp small = shrink(given, smallest);
    if (const std::string reason = reason_not_to_try(small); !reason.empty())
      return {{}, {}, reason};
    Experiment experiment(small, kDraws);
    Discovery discovery{experiment.factors(), experiment.linear_sets(), {}};
    const std::set<int64_t> kept = extents_to_keep(discovery.factors, given, small);
    if (kept.empty()) {
      confirm(discovery, given, small, smallest);
      return discovery;
    }
    for (int64_t extent : kept) smallest[extent] = extent;
  }
}

}  // namespace tessera
