// Generators of While and If. Regions have a few smooth ops, so that rounding changes little.
// Predicates depend on whole numbers, so rounding cannot change them.
#include <algorithm>
#include <numeric>

#include "ir/ops/control/control.h"
#include "tools/fuzz/internal/program_maker.h"

namespace tessera::fuzz {
namespace {

constexpr int64_t kIterationLimit = 3;
// bound of the results of a region, which ends with a bounding op
constexpr double kMaxCarried = 2;
constexpr TensorType kCount{DType::kI32, {}};

std::vector<int64_t> all_dims(const Shape& shape) {
  std::vector<int64_t> dims(static_cast<size_t>(shape.size()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

/// Writes ops of a region.
class RegionWriter {
 public:
  RegionWriter(Dice& dice, Builder& region, std::vector<ValueId> readable)
      : dice_(dice), region_(region), readable_(std::move(readable)) {}

  /// Writes one to three ops from x to a value of its type within [-kMaxCarried, kMaxCarried].
  ValueId chain(ValueId x) {
    for (int64_t ops = dice_.between(1, 3); ops > 0; --ops) x = one_op(x);
    if (dice_.chance(0.6)) return region_.unary("tanh", x);
    return region_.min_scalar(region_.max_scalar(x, -kMaxCarried), kMaxCarried);
  }

  /// [i, i] of x[..., i], summed over all other dims; for a vector or a scalar x the sum.
  ValueId sum_of(ValueId x) {
    const Shape shape = region_.shape(x);
    if (shape.size() < 2) return region_.reduce_sum(x, all_dims(shape));
    const std::string front = letters(shape.size() - 1);
    return region_.dot(x, x, front + "y," + front + "z->yz");
  }

 private:
  static std::string letters(int count) {
    return std::string("abcdefgh").substr(0, static_cast<size_t>(count));
  }

  ValueId one_op(ValueId x) {
    const Shape shape = region_.shape(x);
    switch (dice_.below(6)) {
      case 0:
        return region_.unary(
            dice_.pick(std::vector<std::string_view>{"tanh", "sin", "neg", "logistic"}), x);
      case 1: return dice_.chance(0.5) ? region_.mul_scalar(x, 0.5) : region_.add_scalar(x, 0.25);
      case 2: return with_another(x);
      case 3: return shape.empty() ? with_another(x) : through_matrix(x);
      case 4: return shape.empty() ? with_another(x) : less_its_mean(x);
      default: return turned(x);
    }
  }

  std::vector<ValueId> of_type(const TensorType& type) const {
    std::vector<ValueId> fitting;
    for (ValueId value : readable_)
      if (region_.type(value) == type) fitting.push_back(value);
    return fitting;
  }

  ValueId with_another(ValueId x) {
    std::vector<ValueId> fitting = of_type(region_.type(x));
    fitting.push_back(x);
    const std::vector<ValueId> operands{x, dice_.pick(fitting)};
    return region_.op1(dice_.pick(std::vector<std::string_view>{"add", "sub", "mul"}), operands);
  }

  ValueId through_matrix(ValueId x) {
    const Shape shape = region_.shape(x);
    const int64_t last = shape[shape.size() - 1];
    const std::vector<ValueId> fitting = of_type({DType::kF32, {last, last}});
    if (fitting.empty()) return with_another(x);
    const std::string front = letters(shape.size() - 1);
    return region_.dot(x, dice_.pick(fitting), front + "y,yz->" + front + "z");
  }

  ValueId less_its_mean(ValueId x) {
    const Shape shape = region_.shape(x);
    const int64_t dim = dice_.below(shape.size());
    std::vector<int64_t> others = all_dims(shape);
    std::erase(others, dim);
    const ValueId sum = region_.reduce_sum(x, {dim});
    const ValueId mean = region_.mul_scalar(
        sum, 1.0 / static_cast<double>(std::max<int64_t>(shape[static_cast<int>(dim)], 1)));
    const ValueId wide = region_.broadcast(mean, shape, others);
    return region_.sub(x, wide);
  }

  /// Exchanges two dims of one extent.
  ValueId turned(ValueId x) {
    const Shape shape = region_.shape(x);
    std::vector<int64_t> order = all_dims(shape);
    for (int a = 0; a < shape.size(); ++a)
      for (int b = a + 1; b < shape.size(); ++b)
        if (shape[a] == shape[b]) {
          std::swap(order[a], order[b]);
          return region_.transpose(x, order);
        }
    return with_another(x);
  }

  Dice& dice_;
  Builder& region_;
  std::vector<ValueId> readable_;
};

std::vector<ValueId> ids_of(const std::vector<Known>& list) {
  std::vector<ValueId> ids;
  for (const Known& x : list) ids.push_back(x.id);
  return ids;
}

/// Values that a region of x may use: some of its type, and a matrix of its last dim.
std::vector<Known> captured_for(ProgramMaker& maker, const Known& x) {
  std::vector<Known> captured;
  const Shape shape = maker.shape(x);
  if (maker.dice().chance(0.6))
    captured.push_back(bounded(maker, maker.of_type(maker.type(x)), kMaxCarried));
  if (!shape.empty() && maker.dice().chance(0.7)) {
    const int64_t last = shape[shape.size() - 1];
    captured.push_back(bounded(maker, maker.of_type({DType::kF32, {last, last}}), kMaxCarried));
  }
  return captured;
}

Known any_small(ProgramMaker& maker) {
  return bounded(maker, maker.any_of_rank(DType::kF32, 0, 4), kMaxCarried);
}

/// The shape of RegionWriter::sum_of for a value of this shape.
Shape shape_of_sum(const Shape& shape) {
  if (shape.size() < 2) return {};
  return {shape[shape.size() - 1], shape[shape.size() - 1]};
}
/// Bounds of such a sum for values that a region returns.
Bounds bounds_of_sum(const Shape& shape) {
  const double largest =
      kMaxCarried * kMaxCarried * static_cast<double>(std::max<int64_t>(element_count(shape), 1));
  return {-largest, largest};
}

/// bool[]: is one of the whole numbers above `floor`?
ValueId any_above(Builder& builder, ValueId whole, double floor) {
  const Shape shape = builder.shape(whole);
  const ValueId top =
      shape.empty() ? whole : builder.reduce(ReduceOp::kMax, whole, all_dims(shape));
  const ValueId bound = builder.constant({DType::kF32, {}}, floor);
  return builder.compare("gt", top, bound);
}

/// The condition that ends a loop.
enum class End { kMaxIterations, kCounter, kData };

/// A While: x goes through a chain; a sum may be accumulated over the iterations; whole numbers may
/// count down until none is above 0.
class RandomLoop {
 public:
  explicit RandomLoop(ProgramMaker& maker)
      : maker_(maker),
        dice_(maker.dice()),
        end_(dice_.pick(std::vector{End::kMaxIterations, End::kCounter, End::kData})) {}

  bool cook() {
    const Known x = any_small(maker_);
    if (element_count(shape_of_sum(maker_.shape(x))) > maker_.max_elements()) return false;
    sample_operands(x);
    const std::optional<int64_t> max_iterations =
        end_ == End::kMaxIterations || dice_.chance(0.6)
            ? std::optional(dice_.between(0, kIterationLimit))
            : std::nullopt;
    // No gradient passes without a bound of the iterations.
    const bool stops_before = !max_iterations && dice_.chance(0.5);
    if (stops_before)
      for (auto* list : {&carried_, &captured_})
        for (Known& operand : *list) operand = without_gradient(maker_, operand);
    const Loop loop =
        build_while(maker_.builder(),
                    {.carried = ids_of(carried_),
                     .captured = ids_of(captured_),
                     .condition = condition(),
                     .body = [this](Builder& region,
                                    const RegionValues& values) { return body(region, values); },
                     .max_iterations = max_iterations});
    add_results(loop, max_iterations.has_value());
    return true;
  }

 private:
  void sample_operands(const Known& x) {
    shape_ = maker_.shape(x);
    carried_ = {x};
    captured_ = captured_for(maker_, x);
    if (dice_.chance(0.5)) {
      const TensorType type{DType::kF32, shape_of_sum(shape_)};
      sum_ = carried_.size();
      carried_.push_back(dice_.chance(0.5) ? Known{maker_.builder().constant(type, 0), {0, 0}, true}
                                           : bounded(maker_, maker_.of_type(type), kMaxCarried));
    }
    if (end_ == End::kData) {
      countdown_ = carried_.size();
      carried_.push_back(bounded(maker_, any_whole(maker_), kIterationLimit));
    }
    if (end_ == End::kCounter) {
      counter_ = captured_.size();
      captured_.push_back(maker_.new_input(kCount, {true, 0, kIterationLimit}));
    }
  }

  RegionMaker condition() const {
    if (end_ == End::kMaxIterations) return nullptr;
    return [this](Builder& region, const RegionValues& values) {
      return std::vector{end_ == End::kData
                             ? any_above(region, values.carried[countdown_], 0)
                             : region.compare("lt", values.iteration, values.captured[counter_])};
    };
  }

  std::vector<ValueId> body(Builder& region, const RegionValues& values) {
    std::vector<ValueId> readable = values.captured, next = values.carried;
    readable.push_back(values.carried[0]);
    RegionWriter writer(dice_, region, readable);
    next[0] =
        dice_.chance(0.2) ? one_of_two(region, values, readable) : writer.chain(values.carried[0]);
    if (sum_ > 0) {
      const ValueId addend = writer.sum_of(next[0]);
      next[sum_] = region.add(values.carried[sum_], addend);
    }
    if (countdown_ > 0) next[countdown_] = region.add_scalar(values.carried[countdown_], -1);
    return next;
  }

  /// An If in the loop: one iteration takes the other branch.
  ValueId one_of_two(Builder& region, const RegionValues& values, std::vector<ValueId> readable) {
    std::rotate(readable.begin(), readable.end() - 1, readable.end());
    const ValueId one =
        region.constant(kCount, static_cast<double>(dice_.between(0, kIterationLimit - 1)));
    const ValueId is_it = region.compare("eq", values.iteration, one);
    const RegionMaker branch = [this](Builder& inner, const RegionValues& read) {
      return std::vector{RegionWriter(dice_, inner, read.captured).chain(read.captured[0])};
    };
    return build_if(region, {.predicate = is_it,
                             .captured = std::move(readable),
                             .then_region = branch,
                             .else_region = branch})[0];
  }

  void add_results(const Loop& loop, bool flows) {
    bool trained = false;
    for (const auto* list : {&carried_, &captured_})
      for (const Known& operand : *list) trained = trained || operand.trained;
    maker_.add({loop.iterations, {0, kIterationLimit}, true});
    for (size_t i = 0; i < carried_.size(); ++i) {
      Bounds bounds{-kMaxCarried, kMaxCarried};
      if (i == sum_ && sum_ > 0)
        bounds = {-kMaxCarried + kIterationLimit * bounds_of_sum(shape_).low,
                  kMaxCarried + kIterationLimit * bounds_of_sum(shape_).high};
      if (i == countdown_ && countdown_ > 0) bounds = {-2 * kIterationLimit, kIterationLimit};
      Known result{loop.results[i], bounds, i == countdown_ && countdown_ > 0, trained};
      if (!flows) result = without_gradient(maker_, result);
      maker_.add(result);
    }
  }

  ProgramMaker& maker_;
  Dice& dice_;
  const End end_;
  Shape shape_;
  std::vector<Known> carried_, captured_;
  size_t sum_ = 0, countdown_ = 0;  // among the carried values; 0: there is none
  size_t counter_ = 0;              // among the captured ones
};

bool add_while(ProgramMaker& maker) {
  // Regions are not in the exact subset.
  return !maker.exact() && RandomLoop(maker).cook();
}

ValueId random_predicate(ProgramMaker& maker) {
  if (maker.dice().chance(0.3)) return maker.new_input({DType::kBool, {}}).id;
  const Known whole = any_whole(maker);
  return any_above(maker.builder(), whole.id, static_cast<double>(maker.dice().between(0, 2)));
}

bool add_if(ProgramMaker& maker) {
  if (maker.exact()) return false;
  const Known x = any_small(maker);
  const Shape shape = maker.shape(x);
  if (element_count(shape_of_sum(shape)) > maker.max_elements()) return false;
  std::vector<Known> captured = captured_for(maker, x);
  captured.insert(captured.begin(), x);
  const ValueId predicate = random_predicate(maker);
  const bool sums = maker.dice().chance(0.5), zeros = maker.dice().chance(0.3);
  const auto branch = [&](bool gives_zeros) -> RegionMaker {
    return [&, gives_zeros](Builder& region, const RegionValues& values) {
      RegionWriter writer(maker.dice(), region, values.captured);
      std::vector results{writer.chain(values.captured[0])};
      if (sums)
        results.push_back(gives_zeros ? region.constant({DType::kF32, shape_of_sum(shape)}, 0)
                                      : writer.sum_of(results[0]));
      return results;
    };
  };
  const std::vector<ValueId> results = build_if(maker.builder(), {.predicate = predicate,
                                                                  .captured = ids_of(captured),
                                                                  .then_region = branch(false),
                                                                  .else_region = branch(zeros)});
  const bool trained = std::any_of(captured.begin(), captured.end(),
                                   [](const Known& operand) { return operand.trained; });
  maker.add({results[0], {-kMaxCarried, kMaxCarried}, false, trained});
  if (sums) maker.add({results[1], bounds_of_sum(shape), false, trained});
  return true;
}

constexpr OpGenerator kControlOps[] = {{"while", 6, add_while}, {"if", 5, add_if}};

}  // namespace

std::span<const OpGenerator> control_ops() {
  return kControlOps;
}

}  // namespace tessera::fuzz
